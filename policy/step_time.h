// step_time.h: how long a step of the engine takes with so many sequences: the gap between tokens.
//
//   gap(n) = mean step + slope * (n - mean n)
//
// The line through the recent steps in which nothing but single tokens was computed, by moving
// means of size, time and their products (the update of West, CACM 1979, with a weight of 1/32).
// Steps with prompts in them say nothing here: the engine cuts prompts by itself so that steps stay
// within the targets of those that decode. While all steps had the same size the slope is taken as
// zero, so that one more sequence at a time shows what it costs. It is never steeper than the line
// from nothing: steps of nearly one size say nothing of a slope, and their noise may say anything.
//
// Integers only, as all of policy. Thread: I/O thread only. Cost: O(1).
// Tests: tests/policy/step_time_test.cpp
#pragma once

#include <cstdint>
#include <optional>

#include "policy/instant.h"

namespace turnstile::policy {

class StepTime {
 public:
  // `sequences` got a token in a step without prompts.
  void on_step(Duration took, std::int64_t sequences);

  // Absent until a step was seen.
  std::optional<Duration> gap_with(std::int64_t sequences) const;

 private:
  bool is_known_ = false;
  std::int64_t mean_size_ = 0;  // in 1/256 of a sequence
  std::int64_t mean_us_ = 0;
  std::int64_t variance_ = 0;    // of the size
  std::int64_t covariance_ = 0;  // of size and time
};

}  // namespace turnstile::policy
