#include "policy/ttft_predictor.h"

#include <algorithm>

namespace turnstile::policy {
namespace {

// Long enough that one long prompt does not look like a slow engine.
constexpr Duration kWindow = std::chrono::milliseconds(200);

// Windows: what one holds of prompts and of answers differs, and so does its pace; a shorter memory
// made predictions vary with it. The first ones count alike, or a pace learnt from prompts alone
// would stand for seconds.
constexpr std::int64_t kMemory = 12;

// A unit never takes longer than a second, and nothing is predicted further away than a day: the
// products below stay inside 64 bits.
constexpr std::int64_t kSlowestPicoseconds = 1'000'000'000'000;
constexpr std::int64_t kLongestNanoseconds = std::int64_t{24} * 3600 * 1'000'000'000;

// A ratio moves by a sixteenth of itself, and never so far that it could not come back.
constexpr std::int64_t kStep = 16;
constexpr std::int64_t kFarthest = 8;

std::int64_t scaled(std::int64_t nanoseconds, std::int64_t ratio, std::int64_t one) {
  const std::int64_t whole = nanoseconds / one * ratio;
  return std::min(kLongestNanoseconds, whole + nanoseconds % one * ratio / one);
}

// Moves `ratio` towards the quantile `tenths`/10.
void move(std::int64_t& ratio, bool above, std::int64_t tenths, std::int64_t one) {
  ratio += above ? ratio * tenths / (10 * kStep) : -(ratio * (10 - tenths) / (10 * kStep));
  ratio = std::clamp(ratio, one / kFarthest, one * kFarthest);
}

}  // namespace

void TtftPredictor::on_step(Duration took, std::int64_t units, bool somebody_waits) {
  window_took_ += took;
  window_units_ += units;
  window_was_full_ = window_was_full_ && somebody_waits;
  if (window_took_ < kWindow) return;
  const std::int64_t window_ns = std::min(window_took_.count(), kLongestNanoseconds);
  if (window_units_ > 0) {
    const std::int64_t sample =
        std::clamp<std::int64_t>(window_ns * 1000 / window_units_, 1, kSlowestPicoseconds);
    if (!knows_pace()) {
      if (window_was_full_) picoseconds_per_unit_ = sample;
    } else if (window_was_full_ || sample < picoseconds_per_unit_) {
      windows_ = std::min(windows_ + 1, kMemory);
      picoseconds_per_unit_ += (sample - picoseconds_per_unit_) / windows_;
    }
  }
  window_took_ = Duration{0};
  window_units_ = 0;
  window_was_full_ = true;
}

Duration TtftPredictor::time_for(std::int64_t units) const {
  if (!knows_pace() || units <= 0) return Duration{0};
  if (units > kLongestNanoseconds / picoseconds_per_unit_ * 1000) {
    return Duration{kLongestNanoseconds};
  }
  return Duration{units * picoseconds_per_unit_ / 1000};
}

Duration TtftPredictor::likely(ClassIndex class_index, Duration raw) const {
  return Duration{scaled(raw.count(), ratios_[class_index].median, kOne)};
}

Duration TtftPredictor::safe(ClassIndex class_index, Duration raw) const {
  return Duration{scaled(raw.count(), ratios_[class_index].ninth_decile, kOne)};
}

void TtftPredictor::learn(ClassIndex class_index, Duration raw, Duration actual) {
  if (raw.count() <= 0) return;
  Ratios& ratios = ratios_[class_index];
  move(ratios.median, actual > likely(class_index, raw), 5, kOne);
  move(ratios.ninth_decile, actual > safe(class_index, raw), 9, kOne);
}

}  // namespace turnstile::policy
