// engine_state.h: what Engine keeps between steps; private to engine.cpp, engine_step.cpp and
// engine_drafts.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/acceptance.h"
#include "engine/active_request.h"
#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/guess_cost.h"
#include "engine/scheduler.h"
#include "engine/step_plan.h"
#include "engine/step_sampling.h"

namespace turnstile::engine {

// Sequences and guesses of a step whose logits are wanted.
std::size_t most_logits_rows(const Limits& limits);

struct Engine::State {
  State(std::unique_ptr<Model> given_model, std::shared_ptr<const Tokenizer> given_tokenizer,
        const Limits& given_limits, std::unique_ptr<float[]> logits_memory,
        std::unique_ptr<Drafter> given_drafter);

  // The parts of a step, in order (engine_step.cpp, engine_drafts.cpp).
  void end_cancelled(StepOutput& out);
  void apply_pauses(StepOutput& out);
  void plan_drafts();
  void report_plan(StepOutput& out);
  class Watch;
  bool run_model(StepMail* mail);  // false: nobody wants the step any more
  void give_up(StepOutput& out);
  void sample();
  void advance(StepOutput& out);
  void close_step(StepOutput& out);

  // Of a request that arrives.
  Acceptance first_acceptance(std::uint64_t arrival) const;

  // Parts of plan_drafts(). The decodes that may be guessed for, and the step of decodes in which
  // guesses are weighed: its work without guesses and the tokens it yields.
  struct GuessedStep {
    std::span<PlannedSlice> decodes;
    StepWork work;
    std::uint32_t tokens = 0;
    std::uint32_t sharing = 0;  // of the passes of a draft model; 0: guesses are free
    bool reads_prompts = false;
  };
  // How many guesses a sequence may have and all together, and the price of one (draft_length.h).
  struct GuessTerms {
    std::uint32_t most = 0;
    std::uint32_t rows = 0;
    std::optional<double> share;
  };
  GuessedStep guessed_step();
  std::optional<GuessTerms> guess_terms(const GuessedStep& step) const;  // nullopt: none pays
  void choose_drafting(const GuessedStep& step, const GuessTerms& terms);  // fills `drafting`
  void add_guesses(const GuessedStep& step, const GuessTerms& terms, double passes);

  // Parts of advance().
  void report_computed(const PlannedSlice& slice, StepOutput& out);
  void extend_slice(const PlannedSlice& slice, StepOutput& out);
  // `taken`: the tokens that the text has got; none follows its end.
  void judge_draft(const PlannedSlice& slice, std::span<const std::optional<SampledToken>> taken,
                   StepOutput& out);
  void extend_choice(Choice& choice, std::size_t job, std::size_t index, StepOutput& out);
  void finish_choice(Choice& choice, Event finished, StepOutput& out);
  Event& add_event(EventKind kind, const Sequence& sequence, StepOutput& out);

  Limits limits;
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TokenId> file_end_tokens;
  std::size_t model_vocabulary;
  std::unique_ptr<float[]> logits;  // (most_logits_rows(limits), model_vocabulary)
  Scheduler scheduler;
  StepSampling sampling;
  std::unique_ptr<Drafter> drafter;  // null: no speculation
  Acceptance typical_acceptance;  // of the guesses of all sequences
  GuessCost guess_cost;
  DecodeStep decode_step;  // the step at hand, for guess_cost
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> requests;
  std::uint64_t arrivals = 0;
  std::vector<RequestId> cancelled;
  struct PauseCall {
    RequestId id = 0;
    bool pause = true;  // false: resume
  };
  std::vector<PauseCall> pause_calls;

  // Of the step at hand, kept for their capacity.
  StepPlan plan;
  std::vector<StepSlice> slices;
  std::vector<Sequence*> drafting;
  std::size_t next_job = 0;  // of `sampling`, in the order of the plan
  std::vector<const ActiveRequest*> event_owners;  // of out.events, in the same order
  std::vector<RequestId> done;
};

}  // namespace turnstile::engine
