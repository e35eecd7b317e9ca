#include "engine/guess_cost.h"

#include <algorithm>
#include <cmath>

namespace turnstile::engine {
namespace {

constexpr std::uint32_t kGuessMemory = 8;  // means follow the last so many steps
constexpr double kGainShare = 1.0 / 16.0;  // of one guessed step

// A step that took so many times the usual was held up by something else; nor does a guess, or a
// pass of a draft model, cost more steps.
constexpr double kMostShare = 2.0;

void follow(double& mean, double value, std::uint32_t count) { mean += (value - mean) / count; }

}  // namespace

void GuessCost::observe(const DecodeStep& step, double duration_ms, double kv_byte_ms) {
  if (!(duration_ms > 0.0) || !std::isfinite(duration_ms)) return;
  is_known_ = true;
  balance_ = std::min(balance_ + kBalanceShare, kMostBalance);
  if (step.sequences == 0 || step.sequences > kMostSequences) return;
  Seen& seen = seen_[step.sequences];
  const auto kv_bytes = static_cast<double>(step.kv_bytes);
  if (step.guesses == 0 && step.draft_passes == 0.0) {
    seen.plain_count = std::min(seen.plain_count + 1, kGuessMemory);
    if (seen.plain_count > kPlainFirst) {
      duration_ms = std::min(duration_ms, kMostShare * seen.plain_ms);
    }
    follow(seen.plain_ms, duration_ms, seen.plain_count);
    follow(seen.plain_kv_bytes, kv_bytes, seen.plain_count);
    seen.since_plain = 0;
    return;
  }
  ++seen.since_plain;
  if (seen.plain_count == 0) return;
  const double deeper_ms = kv_byte_ms * (kv_bytes - seen.plain_kv_bytes);
  const double plain_ms = std::max(seen.plain_ms + deeper_ms, 0.5 * seen.plain_ms);
  const double usual_share = seen.guess_count < kTrials ? kMostShare : seen.guess_share;
  // The usual price of a guess holds its pass.
  const bool has_other_passes = step.has_read || step.guesses == 0;
  const double usual_ms = plain_ms * (1.0 + usual_share * step.guesses +
                                      (has_other_passes ? kMostShare * step.draft_passes : 0.0));
  duration_ms = std::min(duration_ms, kMostShare * usual_ms);
  const double gain = 1.0 + static_cast<double>(step.accepted) / step.sequences -
                      duration_ms / plain_ms;
  balance_ = std::min(balance_ + gain, kMostBalance);
  if (step.has_read || step.guesses == 0) return;
  gain_ += (gain - gain_) * kGainShare;
  const double share = std::max(duration_ms / plain_ms - 1.0, 0.0) / step.guesses;
  seen.guess_count = std::min(seen.guess_count + 1, kGuessMemory);
  follow(seen.guess_share, std::min(share, kMostShare), seen.guess_count);
}

bool GuessCost::may_guess(std::uint32_t sequences) const {
  if (!is_known_) return true;
  if (sequences > kMostSequences) return false;
  const Seen& seen = seen_[sequences];
  if (seen.plain_count < kPlainFirst || seen.since_plain >= kPlainEvery) return false;
  return balance_ > 0.0 || gain_ > 0.0;
}

std::optional<double> GuessCost::guess_share(std::uint32_t sequences) const {
  if (sequences > kMostSequences || seen_[sequences].guess_count < kTrials) return std::nullopt;
  return seen_[sequences].guess_share;
}

}  // namespace turnstile::engine
