#include "engine/draft_length.h"

namespace turnstile::engine {
namespace {

// The share of a new judgement; eight judgements forget the first guess at the rate.
constexpr float kNewShare = 0.125F;

// A guess must be worth so much more than it costs. The cost of a row is mostly learned from prompt
// chunks, whose rows need no logits; a row that is verified needs them, and is sampled.
constexpr double kMargin = 1.4;

}  // namespace

void judge_guess(bool came_true, float& acceptance) {
  acceptance += ((came_true ? 1.0F : 0.0F) - acceptance) * kNewShare;
}

DraftLength::DraftLength(const StepCost& cost, const StepWork& work, std::uint32_t tokens)
    : terms_{.base_ms = 6.0, .row_ms = 1.0, .kv_byte_ms = 0.0}, tokens_(tokens) {
  if (cost.is_known()) terms_ = cost.terms();
  step_ms_ = terms_.base_ms + terms_.row_ms * work.rows +
             terms_.kv_byte_ms * static_cast<double>(work.kv_bytes);
}

double DraftLength::row_ms(std::uint32_t position, std::uint64_t kv_position_bytes) const {
  return terms_.row_ms +
         terms_.kv_byte_ms * static_cast<double>(kv_position_bytes) * (position + 1.0);
}

double DraftLength::chance_needed() const {
  return step_ms_ > 0.0 ? kMargin * tokens_ * terms_.row_ms / step_ms_ : 0.0;
}

std::uint32_t DraftLength::choose(float acceptance, std::uint32_t most, std::uint32_t position,
                                  std::uint64_t kv_position_bytes) const {
  const double row = kMargin * row_ms(position, kv_position_bytes);
  double chance = 1.0;
  double tokens = tokens_;
  double step_ms = step_ms_;
  std::uint32_t guesses = 0;
  while (guesses < most) {
    chance *= static_cast<double>(acceptance);
    if (chance * step_ms <= tokens * row) break;
    tokens += chance;
    step_ms += row / kMargin;
    ++guesses;
  }
  return guesses;
}

void DraftLength::take(float acceptance, std::uint32_t guesses, std::uint32_t position,
                       std::uint64_t kv_position_bytes) {
  double chance = 1.0;
  for (std::uint32_t i = 0; i < guesses; ++i) {
    chance *= static_cast<double>(acceptance);
    tokens_ += chance;
    step_ms_ += row_ms(position, kv_position_bytes);
  }
}

}  // namespace turnstile::engine
