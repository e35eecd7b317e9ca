// length_quantile.h: how long answers of one model and class get, as a distribution.
//
// A histogram of finished lengths in half-octave buckets, so that a quantile is at most half too
// large and never too small by more than its samples. Asked for the length of an answer that has
// already reached some length, it looks only at the answers that went further: what has run long
// will run longer. Old answers fade: at kMostSamples every count is halved.
//
// Admission reserves cache blocks up to this length (future peak, after the Past-Future scheduler,
// Gong et al., ASPLOS 2025). Too short a guess costs a pause, never a failure.
//
// Thread: I/O thread only. Cost: O(buckets), no allocation.
// Tests:  tests/policy/length_quantile_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace turnstile::policy {

class LengthQuantile {
 public:
  static constexpr std::int64_t kMostSamples = 512;
  static constexpr std::int64_t kFewestSamples = 16;  // below it nothing is said

  void learn(std::int64_t tokens);

  // The length that `ppm` millionths of the answers longer than `generated` do not exceed; absent
  // while too few are known.
  std::optional<std::int64_t> at(std::int64_t ppm, std::int64_t generated) const;

 private:
  static constexpr std::size_t kBuckets = 48;  // up to 2^24 tokens
  std::array<std::int64_t, kBuckets> counts_{};
  std::int64_t total_ = 0;
};

}  // namespace turnstile::policy
