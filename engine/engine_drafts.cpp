// The part of a step that makes guesses and judges them (drafter.h, draft_length.h).
#include <algorithm>
#include <optional>
#include <span>

#include "engine/draft_length.h"
#include "engine/engine_state.h"

namespace turnstile::engine {
namespace {

// Of the guesses of all sequences, so many judgements outweigh what was before.
constexpr float kTypicalShare = 1.0F / 64.0F;

// Every so many requests one is guessed for as if nothing were known, so that a draft model that
// was of no use for a while is tried again.
constexpr std::uint64_t kRequestsPerTrial = 8;

// Of a prompt's rows in a step, for each guess beside them: a step stays within the room that the
// scheduler leaves below the smallest gap (Scheduler::kGapShare), and a prompt waits little longer.
constexpr std::uint32_t kPromptRowsPerGuess = 16;

// Of a draft model that has read all but the last tokens of these texts: one for each guess of the
// longest draft and one for the token that ended it; the first also reads a guess that came true.
double most_passes(std::span<Sequence* const> drafting) {
  std::size_t longest = 0;
  for (const Sequence* sequence : drafting) longest = std::max(longest, sequence->draft.size());
  const double row_passes = kDraftRowPasses * static_cast<double>(drafting.size());
  return static_cast<double>(longest + 1) * (1.0 + row_passes) + row_passes;
}

}  // namespace

Acceptance Engine::State::first_acceptance(std::uint64_t arrival) const {
  if (!drafter || drafter->is_free()) return typical_acceptance;
  return arrival % kRequestsPerTrial == 0 ? Acceptance::hopeful() : typical_acceptance;
}

// Where decodes rest, a row of theirs is a token for sure. Beside a prompt no row is free, so what
// steps of decodes showed does not tell the price of a guess, but the learned cost does. It is
// weighed as in the step of decodes that comes when everybody who runs has read its prompt.
void Engine::State::plan_drafts() {
  decode_step = {};
  if (!drafter || plan.resting > 0) return;
  const bool reads_prompts = plan.prompt_rows > 0;
  const std::span<PlannedSlice> decodes =
      std::span(plan.slices).first(reads_prompts ? plan.decodes : plan.slices.size());
  if (decodes.empty()) return;
  const auto count = static_cast<std::uint32_t>(decodes.size());
  StepWork work = reads_prompts ? plan.decode_work : plan.work;
  const auto tokens = static_cast<std::uint32_t>(reads_prompts ? scheduler.running_count() : count);
  work.rows += tokens - count;
  work.logits_rows += tokens - count;
  if (!reads_prompts) decode_step = {.sequences = count, .kv_bytes = work.kv_bytes};
  if (!guess_cost.may_guess(count)) return;
  std::uint32_t most = limits.speculation.num_speculative_tokens;
  const std::uint32_t sharing = drafter->is_free() ? 0 : count;
  std::optional<double> share = guess_cost.guess_share(count);
  DraftLength undrafted(scheduler.cost(), work, tokens, sharing, share);
  const bool is_refused = guess_cost.is_known() && (!share || !undrafted.can_pay());
  if (is_refused && reads_prompts) return;
  const bool is_trial = is_refused && (!share || guess_cost.may_try());
  if (is_trial) most = 1;
  if (is_trial || reads_prompts) {
    share.reset();
    undrafted = DraftLength(scheduler.cost(), work, tokens, sharing);
  }
  if (!undrafted.can_pay()) return;
  std::uint32_t rows_left = kMaxDraftRows;
  if (reads_prompts) {
    rows_left =
        std::min(rows_left, (plan.prompt_rows + kPromptRowsPerGuess - 1) / kPromptRowsPerGuess);
  }
  choose_drafting(decodes, undrafted, most, rows_left);
  work.draft_passes = plan.work.draft_passes = drafter->propose(drafting);
  decode_step.draft_passes = work.draft_passes;
  decode_step.has_read = work.draft_passes > most_passes(drafting);
  // What was seen includes the passes of a draft model, which are over now.
  if (sharing > 0) share.reset();
  DraftLength length(scheduler.cost(), work, tokens, 0, share);
  for (PlannedSlice& slice : decodes) {
    Sequence& sequence = *slice.sequence;
    if (sequence.draft.empty()) continue;
    const auto guesses = std::min(static_cast<std::uint32_t>(sequence.draft.size()), rows_left);
    const GuessChances chances(sequence.acceptance, sequence.sure_guesses);
    const std::uint32_t planned =
        scheduler.add_drafts(slice, length.choose(chances, guesses), plan);
    length.take(chances, planned);
    rows_left -= planned;
    decode_step.guesses += planned;
  }
}

void Engine::State::choose_drafting(std::span<const PlannedSlice> decodes, DraftLength length,
                                    std::uint32_t most, std::uint32_t rows) {
  drafting.clear();
  for (const PlannedSlice& slice : decodes) {
    Sequence& sequence = *slice.sequence;
    const auto known = static_cast<std::uint32_t>(sequence.tokens.size());
    sequence.draft.clear();
    // A prompt that is computed up to its last token may still have to part into choices.
    if (known == sequence.prompt_tokens) continue;
    sequence.draft_limit = std::min(most, sequence.final_tokens - 1 - known);
    if (!drafter->is_free()) {
      const GuessChances chances(sequence.acceptance);
      const std::uint32_t worthwhile = length.choose(chances, std::min(most, rows));
      if (worthwhile == 0) sequence.acceptance.fade_to(typical_acceptance);
      sequence.draft_limit = std::min(sequence.draft_limit, worthwhile);
      length.take(chances, sequence.draft_limit);
      rows -= sequence.draft_limit;
    }
    if (sequence.draft_limit > 0) drafting.push_back(&sequence);
  }
}

void Engine::State::judge_draft(const PlannedSlice& slice,
                                std::span<const std::optional<SampledToken>> taken,
                                StepOutput& out) {
  Sequence& sequence = *slice.sequence;
  if (sequence.draft.empty()) return;
  for (std::size_t i = 0; i < sequence.draft.size(); ++i) {
    sequence.acceptance.count(i < sequence.sure_guesses);
    typical_acceptance.count(i < sequence.sure_guesses, kTypicalShare);
  }
  for (std::size_t i = 0; i < std::min(taken.size(), sequence.draft.size()); ++i) {
    const bool is_sure = i < sequence.sure_guesses;
    const bool came_true = taken[i]->token == sequence.draft[i];
    sequence.acceptance.judge(is_sure, came_true);
    typical_acceptance.judge(is_sure, came_true, kTypicalShare);
  }
  sequence.draft.clear();
  if (slice.drafts == 0) return;
  const auto accepted = static_cast<std::uint32_t>(taken.empty() ? 0 : taken.size() - 1);
  ++out.stats.drafts;
  out.stats.draft_tokens += slice.drafts;
  out.stats.accepted_tokens += accepted;
  decode_step.accepted += accepted;
  scheduler.drop_drafts(sequence);
}

}  // namespace turnstile::engine
