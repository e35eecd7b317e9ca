// ttft_predictor.h: how fast the engine works through service units, and how far predictions of the
// first token have been off.
//
// Pace: picoseconds of engine time per service unit, the mean over the first windows of engine time
// in which somebody waited, then a moving one. An engine with room to spare delivers less than it
// could, so such windows only count when they were faster. Until the first full window nothing is
// known and nobody is refused.
//
// Ratio: of actual to predicted time, kept as a running quantile for each class (stochastic
// approximation: up by a share of itself when an actual time lies above it, down when below). The
// median decides, the ninth decile is reported. A simple estimate with this correction comes
// within a percent of the best one we could build.
//
// Integers only, so that the same reports give the same predictions on every machine.
//
// Thread: I/O thread only. Cost: O(1), no allocation after construction.
// Tests:  tests/policy/ttft_predictor_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "policy/instant.h"
#include "policy/policy_set.h"

namespace turnstile::policy {

class TtftPredictor {
 public:
  explicit TtftPredictor(std::size_t class_count) : ratios_(class_count) {}

  // One engine step: its length and the service units it delivered. `somebody_waits`: the engine
  // had as much to do as it can take.
  void on_step(Duration took, std::int64_t units, bool somebody_waits);

  bool knows_pace() const { return picoseconds_per_unit_ > 0; }
  Duration time_for(std::int64_t units) const;

  // `raw` times the class's ratio.
  Duration likely(ClassIndex class_index, Duration raw) const;  // half of them come sooner
  Duration safe(ClassIndex class_index, Duration raw) const;    // nine of ten come sooner

  // A request for which `raw` was predicted got its first token after `actual`.
  void learn(ClassIndex class_index, Duration raw, Duration actual);

 private:
  static constexpr std::int64_t kOne = 1 << 16;
  struct Ratios {
    std::int64_t median = kOne;
    std::int64_t ninth_decile = kOne;
  };

  std::int64_t picoseconds_per_unit_ = 0;
  std::int64_t windows_ = 1;  // that the pace is a mean of
  Duration window_took_{};
  std::int64_t window_units_ = 0;
  bool window_was_full_ = true;
  std::vector<Ratios> ratios_;
};

}  // namespace turnstile::policy
