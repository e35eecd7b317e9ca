#include "engine/draft_length.h"

#include <algorithm>

namespace turnstile::engine {
namespace {

// A guess must be worth so much more than it costs: what a row costs is mostly learned from larger
// steps.
constexpr double kMargin = 1.4;

// Where steps with guesses were watched, what is left is that the first guess costs most.
constexpr double kSeenMargin = 1.1;

// A row costs at least this share of the step, whatever was learned from a few noisy ones.
constexpr double kLeastRowShare = 1.0 / 32.0;

// A pass of a draft model before one was seen, of a step.
constexpr double kUsualPassShare = 1.0 / 4.0;

}  // namespace

DraftLength::DraftLength(const StepCost& cost, const StepWork& work, std::uint32_t tokens,
                         std::uint32_t sharing, std::optional<double> guess_share)
    : margin_(guess_share ? kSeenMargin : kMargin), tokens_(tokens) {
  StepCost::Terms terms{.base_ms = 6.0, .row_ms = 1.0, .kv_byte_ms = 0.0, .draft_pass_ms = 0.0};
  if (cost.is_known()) terms = cost.terms();
  const double pass_ms = cost.is_draft_known()
                             ? terms.draft_pass_ms
                             : kUsualPassShare * (terms.base_ms + terms.row_ms);
  step_ms_ = terms.base_ms + terms.row_ms * work.rows +
             terms.kv_byte_ms * static_cast<double>(work.kv_bytes) + pass_ms * work.draft_passes +
             terms.logits_row_ms * work.logits_rows;
  if (guess_share) {
    row_ms_ = std::max(*guess_share, kLeastRowShare) * step_ms_;
    return;
  }
  row_ms_ = std::max(terms.row_ms + terms.logits_row_ms, step_ms_ * kLeastRowShare);
  if (sharing > 0) draft_ms_ = pass_ms * (1.0 / sharing + kDraftRowPasses);
}

double DraftLength::chance_needed() const {
  return step_ms_ > 0.0 ? tokens_ * (margin_ * row_ms_ + draft_ms_) / step_ms_ : 0.0;
}

std::uint32_t DraftLength::choose(const GuessChances& chances, std::uint32_t most) const {
  double chance = 1.0;
  DraftLength longer = *this;
  std::uint32_t guesses = 0;
  while (guesses < most) {
    chance *= chances.of(guesses);
    if (chance <= longer.chance_needed()) break;
    longer.tokens_ += chance;
    longer.step_ms_ += row_ms_ + draft_ms_;
    ++guesses;
  }
  return guesses;
}

void DraftLength::take(const GuessChances& chances, std::uint32_t guesses) {
  double chance = 1.0;
  for (std::uint32_t i = 0; i < guesses; ++i) {
    chance *= chances.of(i);
    tokens_ += chance;
    step_ms_ += row_ms_ + draft_ms_;
  }
}

}  // namespace turnstile::engine
