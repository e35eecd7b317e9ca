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
// Half a row more, since sums of such passes are rounded.
double most_passes(std::span<Sequence* const> drafting) {
  std::size_t longest = 0;
  for (const Sequence* sequence : drafting) longest = std::max(longest, sequence->draft.size());
  const double row_passes = kDraftRowPasses * static_cast<double>(drafting.size());
  return static_cast<double>(longest + 1) * (1.0 + row_passes) + row_passes + kDraftRowPasses / 2;
}

}  // namespace

Acceptance Engine::State::first_acceptance(std::uint64_t arrival) const {
  if (!drafter || drafter->is_free()) return typical_acceptance;
  return arrival % kRequestsPerTrial == 0 ? Acceptance::hopeful() : typical_acceptance;
}

void Engine::State::plan_drafts() {
  decode_step = {};
  // Where decodes rest, a row of theirs is a token for sure.
  if (!drafter || plan.resting > 0) return;
  const GuessedStep step = guessed_step();
  if (step.decodes.empty()) return;
  const auto count = static_cast<std::uint32_t>(step.decodes.size());
  if (!step.reads_prompts) decode_step = {.sequences = count, .kv_bytes = step.work.kv_bytes};
  const auto terms = guess_terms(step);
  if (!terms) return;
  choose_drafting(step, *terms);
  const double passes = drafter->propose(drafting);
  plan.work.draft_passes = passes;
  decode_step.draft_passes = passes;
  decode_step.has_read = passes > most_passes(drafting);
  add_guesses(step, *terms, passes);
}

// Beside a prompt no row is free. So a guess there is weighed as in the step of decodes that comes
// when everybody who runs has read its prompt.
Engine::State::GuessedStep Engine::State::guessed_step() {
  GuessedStep step{
      .decodes = plan.slices, .work = plan.work, .reads_prompts = plan.prompt_rows > 0};
  if (step.reads_prompts) {
    step.decodes = step.decodes.first(plan.decodes);
    step.work = plan.decode_work;
  }
  const auto count = static_cast<std::uint32_t>(step.decodes.size());
  step.tokens =
      static_cast<std::uint32_t>(step.reads_prompts ? scheduler.running_count() : count);
  step.work.rows += step.tokens - count;
  step.work.logits_rows += step.tokens - count;
  step.sharing = drafter->is_free() ? 0 : count;
  return step;
}

// What steps of decodes showed says whether a guess pays at all, but beside a prompt not its price:
// that is the learned one.
std::optional<Engine::State::GuessTerms> Engine::State::guess_terms(const GuessedStep& step) const {
  const auto count = static_cast<std::uint32_t>(step.decodes.size());
  if (!guess_cost.may_guess(count)) return std::nullopt;
  const auto can_pay = [&](std::optional<double> share) {
    return DraftLength(scheduler.cost(), step.work, step.tokens, step.sharing, share).can_pay();
  };
  GuessTerms terms{.most = limits.speculation.num_speculative_tokens,
                   .rows = kMaxDraftRows,
                   .share = guess_cost.guess_share(count)};
  const bool is_refused = guess_cost.is_known() && (!terms.share || !can_pay(terms.share));
  if (is_refused && step.reads_prompts) return std::nullopt;
  const bool is_trial = is_refused && (!terms.share || guess_cost.may_try());
  if (is_trial) terms.most = 1;
  if (is_trial || step.reads_prompts) terms.share.reset();
  if (!can_pay(terms.share)) return std::nullopt;
  if (step.reads_prompts) {
    const std::uint32_t rows =
        (plan.prompt_rows + kPromptRowsPerGuess - 1) / kPromptRowsPerGuess;
    terms.rows = std::min(terms.rows, rows);
  }
  return terms;
}

void Engine::State::choose_drafting(const GuessedStep& step, const GuessTerms& terms) {
  DraftLength length(scheduler.cost(), step.work, step.tokens, step.sharing, terms.share);
  std::uint32_t rows_left = terms.rows;
  drafting.clear();
  for (const PlannedSlice& slice : step.decodes) {
    Sequence& sequence = *slice.sequence;
    const auto known = static_cast<std::uint32_t>(sequence.tokens.size());
    sequence.draft.clear();
    // A prompt that is computed up to its last token may still have to part into choices.
    if (known == sequence.prompt_tokens) continue;
    sequence.draft_limit = std::min(terms.most, sequence.final_tokens - 1 - known);
    if (!drafter->is_free()) {
      const GuessChances chances(sequence.acceptance);
      const std::uint32_t worthwhile = length.choose(chances, std::min(terms.most, rows_left));
      if (worthwhile == 0) sequence.acceptance.fade_to(typical_acceptance);
      sequence.draft_limit = std::min(sequence.draft_limit, worthwhile);
      length.take(chances, sequence.draft_limit);
      rows_left -= sequence.draft_limit;
    }
    if (sequence.draft_limit > 0) drafting.push_back(&sequence);
  }
}

void Engine::State::add_guesses(const GuessedStep& step, const GuessTerms& terms, double passes) {
  StepWork work = step.work;
  work.draft_passes = passes;
  // What was seen includes the passes of a draft model, which are over now.
  DraftLength length(scheduler.cost(), work, step.tokens, 0,
                     step.sharing > 0 ? std::nullopt : terms.share);
  std::uint32_t rows_left = terms.rows;
  for (PlannedSlice& slice : step.decodes) {
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
