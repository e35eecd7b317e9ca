// fake_engine.h: an EnginePort that steps when the test says so and does what the test wants.
//
// Each submitted request follows a plan: how many prompt tokens a step computes, how many tokens
// each choice generates and why it ends, whether it is paused on the way. Events come in the order
// that engine/step_output.h promises, blocks are counted as the engine counts them, and more blocks
// or sequences than there are is a failure of whoever gave the permits: it throws.
//
// Like the real port it stops when its reports are not given back (kReports of them).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <string>
#include <vector>

#include "gateway/clock.h"
#include "gateway/engine_port.h"

namespace turnstile::tests {

struct FakePlan {
  std::uint32_t prompt_tokens_per_step = 512;
  std::uint32_t cached_tokens = 0;      // below the prompt's length
  std::uint32_t completion_tokens = 8;  // each choice, cut at max_tokens
  engine::FinishReason finish = engine::FinishReason::StopToken;  // unless cut
  std::optional<std::uint32_t> pause_after;  // tokens of choice 0
  std::uint32_t paused_steps = 2;
};

struct FakeEngineLimits {
  std::uint64_t blocks = 1024;
  std::uint32_t sequences = 32;
  std::size_t max_open_requests = 64;
};

class FakeEngine final : public gateway::EnginePort {
 public:
  static constexpr std::size_t kReports = 4;
  static constexpr std::uint32_t kBlockTokens = 16;

  FakeEngine(const gateway::Clock& clock, const FakeEngineLimits& limits)
      : clock_(clock), limits_(limits) {}

  bool try_submit(engine::Request request) override;
  void cancel(engine::RequestId id) override { cancels_.push_back(id); }
  void pause(engine::RequestId id) override { pauses_.emplace_back(id, true); }
  void resume(engine::RequestId id) override { pauses_.emplace_back(id, false); }
  std::unique_ptr<gateway::StepReport> try_take() override;
  void give_back(std::unique_ptr<gateway::StepReport> report) override;
  policy::Instant last_beat() const override { return beat_; }
  std::optional<std::string> fault() const override { return fault_; }

  // Asked once for each request, when the engine first sees it.
  std::function<FakePlan(const engine::Request&)> plan = [](const engine::Request&) {
    return FakePlan{};
  };

  // One step; false when there is nothing to do or no report is free.
  bool step();
  // Shows that it lives without work.
  void beat() { beat_ = clock_.now(); }
  void fail(std::string why) { fault_ = std::move(why); }
  bool throws_at_submit = false;  // a failure of the server itself
  policy::Duration step_time{};   // that it says each step took

  bool has_work() const;
  std::size_t not_taken() const { return not_taken_; }  // for want of room
  std::size_t open_requests() const { return running_.size() + submitted_.size(); }
  std::uint64_t held_blocks() const;
  std::uint64_t steps() const { return steps_; }

 private:
  struct Choice {
    std::uint32_t tokens = 0;
    bool is_done = false;
  };
  struct Running {
    engine::Request request;
    FakePlan plan;
    bool is_bound = false;
    std::uint32_t computed = 0;  // prompt tokens, cached ones included
    std::vector<Choice> choices;
    std::optional<std::uint32_t> paused_for;  // steps left
    bool is_aside = false;                    // until resume()
    bool was_paused = false;                  // a Paused event waits for its Resumed

    std::uint32_t open_choices() const;
    std::uint64_t held_blocks() const;
  };

  void apply_pauses(engine::StepOutput& out);
  void relieve(engine::StepOutput& out);
  void advance(Running& running, engine::StepOutput& out);
  void generate(Running& running, std::uint16_t choice, engine::StepOutput& out);
  void finish(Running& running, std::uint16_t choice, engine::FinishReason reason,
              engine::StepOutput& out);
  engine::Event& add(engine::EventKind kind, const Running& running, engine::StepOutput& out);
  void check_limits() const;

  const gateway::Clock& clock_;
  FakeEngineLimits limits_;
  std::deque<engine::Request> submitted_;
  std::vector<engine::RequestId> cancels_;
  std::vector<std::pair<engine::RequestId, bool>> pauses_;  // true: pause, false: resume
  std::map<engine::RequestId, Running> running_;
  std::deque<std::unique_ptr<gateway::StepReport>> reports_;
  std::size_t reports_out_ = 0;  // made and not given back
  std::optional<std::string> fault_;
  policy::Instant beat_{};
  std::size_t not_taken_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace turnstile::tests
