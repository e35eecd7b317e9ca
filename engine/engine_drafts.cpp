// The part of a step that makes guesses and judges them (drafter.h, draft_length.h).
#include <algorithm>

#include "engine/draft_length.h"
#include "engine/engine_state.h"

namespace turnstile::engine {
namespace {

// Of the guesses of all sequences, so many judgements outweigh what was before.
constexpr float kTypicalShare = 1.0F / 64.0F;

// Every so many requests one is guessed for as if nothing were known, so that a draft model that
// was of no use for a while is tried again.
constexpr std::uint64_t kRequestsPerTrial = 8;

}  // namespace

Acceptance Engine::State::first_acceptance(std::uint64_t arrival) const {
  if (!drafter || drafter->is_free()) return Acceptance();
  return arrival % kRequestsPerTrial == 0 ? Acceptance::hopeful() : typical_acceptance;
}

// Guesses are made only in steps of decodes: a step with a chunk computes enough already.
void Engine::State::plan_drafts() {
  if (!drafter || plan.slices.empty() || plan.prompt_rows > 0) return;
  const auto decodes = static_cast<std::uint32_t>(plan.slices.size());
  const DraftLength undrafted(scheduler.cost(), plan.work, decodes,
                              drafter->is_free() ? 0 : decodes);
  if (!undrafted.can_pay()) return;
  choose_drafting(undrafted);
  plan.work.draft_passes = drafter->propose(drafting);
  DraftLength length(scheduler.cost(), plan.work, decodes);
  std::uint32_t rows_left = kMaxDraftRows;
  for (PlannedSlice& slice : plan.slices) {
    Sequence& sequence = *slice.sequence;
    if (sequence.draft.empty()) continue;
    const auto guesses = std::min(static_cast<std::uint32_t>(sequence.draft.size()), rows_left);
    const GuessChances chances(sequence.acceptance, sequence.sure_guesses);
    const std::uint32_t planned =
        scheduler.add_drafts(slice, length.choose(chances, guesses), plan);
    length.take(chances, planned);
    rows_left -= planned;
  }
}

void Engine::State::choose_drafting(DraftLength length) {
  const std::uint32_t most = limits.speculation.num_speculative_tokens;
  std::uint32_t rows_left = kMaxDraftRows;
  drafting.clear();
  for (const PlannedSlice& slice : plan.slices) {
    Sequence& sequence = *slice.sequence;
    const auto known = static_cast<std::uint32_t>(sequence.tokens.size());
    sequence.draft.clear();
    // A prompt that is computed up to its last token may still have to part into choices.
    if (known == sequence.prompt_tokens) continue;
    sequence.draft_limit = std::min(most, sequence.final_tokens - 1 - known);
    if (!drafter->is_free()) {
      const GuessChances chances(sequence.acceptance);
      const std::uint32_t worthwhile = length.choose(chances, std::min(most, rows_left));
      if (worthwhile == 0) sequence.acceptance.fade_to(typical_acceptance);
      sequence.draft_limit = std::min(sequence.draft_limit, worthwhile);
      length.take(chances, sequence.draft_limit);
      rows_left -= sequence.draft_limit;
    }
    if (sequence.draft_limit > 0) drafting.push_back(&sequence);
  }
}

void Engine::State::judge_draft(const PlannedSlice& slice, std::size_t job, StepOutput& out) {
  Sequence& sequence = *slice.sequence;
  if (sequence.draft.empty()) return;
  for (std::size_t i = 0; i < sequence.draft.size(); ++i) {
    sequence.acceptance.count(i < sequence.sure_guesses);
    typical_acceptance.count(i < sequence.sure_guesses, kTypicalShare);
  }
  const auto results = sampling.results(job);
  for (std::size_t i = 0; i < std::min(results.size(), sequence.draft.size()); ++i) {
    if (!results[i]) break;
    const bool is_sure = i < sequence.sure_guesses;
    const bool came_true = results[i]->token == sequence.draft[i];
    sequence.acceptance.judge(is_sure, came_true);
    typical_acceptance.judge(is_sure, came_true, kTypicalShare);
  }
  sequence.draft.clear();
  if (slice.drafts == 0) return;
  ++out.stats.drafts;
  out.stats.draft_tokens += slice.drafts;
  out.stats.accepted_tokens += static_cast<std::uint32_t>(results.size()) - 1;
  scheduler.drop_drafts(sequence);
}

}  // namespace turnstile::engine
