#include "policy/step_time.h"

#include <algorithm>
#include <chrono>

namespace turnstile::policy {
namespace {

constexpr std::int64_t kOne = 256;
constexpr std::int64_t kMemory = 32;
constexpr std::int64_t kMostSequences = 10'000;
constexpr std::int64_t kLongestUs = 100'000'000;

// Half a sequence, squared: below it the sizes are as good as equal.
constexpr std::int64_t kLeastVariance = kOne * kOne / 4;

}  // namespace

void StepTime::on_step(Duration took, std::int64_t sequences) {
  const std::int64_t us =
      std::min(std::chrono::duration_cast<std::chrono::microseconds>(took).count(), kLongestUs);
  const std::int64_t size = kOne * std::min(sequences, kMostSequences);
  if (!is_known_) {
    is_known_ = true;
    mean_size_ = size;
    mean_us_ = us;
    return;
  }
  const std::int64_t off_size = size - mean_size_;
  const std::int64_t off_us = us - mean_us_;
  mean_size_ += off_size / kMemory;
  mean_us_ += off_us / kMemory;
  variance_ += (off_size * off_size - variance_) / kMemory;
  covariance_ += (off_size * off_us - covariance_) / kMemory;
}

std::optional<Duration> StepTime::gap_with(std::int64_t sequences) const {
  if (!is_known_) return std::nullopt;
  const std::int64_t beyond = kOne * std::min(sequences, kMostSequences) - mean_size_;
  std::int64_t us = mean_us_;
  if (variance_ >= kLeastVariance && covariance_ > 0) {
    // A thousand times the slope, so that the products stay inside 64 bits.
    const std::int64_t slope_milli = std::min(covariance_, INT64_MAX / 1000) * 1000 / variance_;
    // Where sizes hardly differ the slope is mostly noise, but a step without sequences takes no
    // less than nothing.
    const std::int64_t steepest_milli = mean_us_ * 1000 / std::max(mean_size_, kOne);
    us += std::clamp(slope_milli, std::int64_t{0}, steepest_milli) * beyond / 1000;
  }
  return std::chrono::microseconds(std::clamp<std::int64_t>(us, 0, kLongestUs));
}

}  // namespace turnstile::policy
