// engine_state.h: what Engine keeps between steps; private to engine.cpp and engine_step.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/active_request.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/step_plan.h"

namespace turnstile::engine {

struct Engine::State {
  State(std::unique_ptr<Model> given_model, std::shared_ptr<const Tokenizer> given_tokenizer,
        const Limits& given_limits, std::unique_ptr<float[]> logits_memory);

  // The parts of a step, in order (engine_step.cpp).
  void end_cancelled(StepOutput& out);
  void report_plan(StepOutput& out);
  void run_model();
  void advance(StepOutput& out);
  void close_step(StepOutput& out);

  // Parts of advance().
  void report_computed(const PlannedSlice& slice, StepOutput& out);
  void sample_slice(Sequence& sequence, std::span<const float> row, StepOutput& out);
  void extend_choice(Choice& choice, std::span<const float> row, StepOutput& out);
  void finish_choice(Choice& choice, Event finished, StepOutput& out);
  Event& add_event(EventKind kind, const Sequence& sequence, StepOutput& out);

  Limits limits;
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TokenId> file_end_tokens;
  std::size_t model_vocabulary;
  std::unique_ptr<float[]> logits;  // (max_num_seqs, model_vocabulary)
  Scheduler scheduler;
  Sampler sampler;
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> requests;
  std::uint64_t arrivals = 0;
  std::vector<RequestId> cancelled;

  // Of the step at hand, kept for their capacity.
  StepPlan plan;
  std::vector<StepSlice> slices;
  std::vector<const ActiveRequest*> event_owners;  // of out.events, in the same order
  std::vector<RequestId> done;
};

}  // namespace turnstile::engine
