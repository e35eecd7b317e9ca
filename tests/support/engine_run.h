// engine_run.h: drives an engine step by step and holds it to what its headers promise.
//
// After every step: check_invariants(), the order of events, whole characters only, the limits on
// rows and sequences, progress. Broken promises fail the running test.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/toy_model.h"

namespace turnstile::tests {

struct ChoiceResult {
  std::vector<engine::TokenId> tokens;  // of Token events
  std::vector<float> logprobs;
  std::vector<engine::TopLogprob> top_logprobs;
  std::string text;
  std::optional<engine::FinishReason> finish;
  std::optional<engine::TokenId> end_token;
  float end_logprob = 0.0F;  // of the end token
  std::optional<std::uint32_t> stop_index;
  std::uint32_t pauses = 0;
  std::uint32_t resumes = 0;
};

struct RequestResult {
  std::vector<ChoiceResult> choices;
  bool bound = false;
  bool done = false;
  std::uint32_t cached_tokens = 0;
  std::uint32_t computed_tokens = 0;
  std::uint32_t recomputed_tokens = 0;
  std::uint32_t held_blocks = 0;  // as last reported
};

class EngineRun {
 public:
  explicit EngineRun(std::unique_ptr<engine::Engine> engine);

  void add(engine::Request request);
  void cancel(engine::RequestId id);
  void pause(engine::RequestId id);
  void resume(engine::RequestId id);
  bool has_work() const { return engine_->has_work(); }
  void step(engine::StepMail* mail = nullptr);
  // Tells the engine that its last step took so long.
  void observe_step(double duration_ms) { engine_->observe_step(duration_ms); }
  void run();  // until nothing is left

  const RequestResult& result(engine::RequestId id) const { return results_.at(id); }
  const engine::StepOutput& output() const { return out_; }  // of the last step
  bool is_given_up() const { return is_given_up_; }
  const engine::Engine& engine() const { return *engine_; }
  std::uint64_t steps() const { return steps_; }

 private:
  void take(const engine::Event& event);

  std::unique_ptr<engine::Engine> engine_;
  std::map<engine::RequestId, engine::Request> requests_;
  std::map<engine::RequestId, RequestResult> results_;
  std::vector<engine::RequestId> cancelled_;
  bool has_pause_calls_ = false;  // which may give a step nothing to report
  bool is_given_up_ = false;      // the last step, for cancels that came while it ran
  engine::StepOutput out_;
  std::uint64_t steps_ = 0;
};

// An engine over a ToyModel and the toy tokenizer. Limits must fit.
std::unique_ptr<engine::Engine> toy_engine(const engine::Limits& limits,
                                           const ToyModelOptions& options = {},
                                           ToyModelLog* log = nullptr);

// The same with another ToyModel that drafts; limits.speculation must ask for one.
std::unique_ptr<engine::Engine> toy_engine_with_draft(const engine::Limits& limits,
                                                      const ToyModelOptions& options,
                                                      const ToyModelOptions& draft_options,
                                                      ToyModelLog* log = nullptr,
                                                      ToyModelLog* draft_log = nullptr);

// What the request gives when nothing else is there: one prompt chunk, no cache, blocks enough.
RequestResult run_alone(const engine::Request& request, const ToyModelOptions& options = {});

}  // namespace turnstile::tests
