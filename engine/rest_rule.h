// rest_rule.h: which decodes may sit out a step for a better priority (scheduler.h says why).
//
//   for a token gap  theirs is at least kRestFactor times that of a decode of a better priority:
//                    two steps that keep the smaller gap keep theirs
//   for a prompt     of a better priority, which is to be computed
//
// Equals and betters never rest for anybody, so the first in the order never does.
//
// Plain values. Thread: engine thread. Tests: tests/engine/rest_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "engine/sequence.h"

namespace turnstile::engine {

// A token gap that somebody asked for is at least so many times another's: it may rest for it.
inline constexpr double kRestFactor = 2.0;

// Of a sequence that asked for no gap.
inline constexpr double kNoGapMs = 1'000.0;

// How long the sequence may go without a token.
inline double patience_ms(const Sequence& sequence) {
  return sequence.token_gap_ms > 0.0F ? static_cast<double>(sequence.token_gap_ms) : kNoGapMs;
}

// The smallest gap of those that asked for one; infinite where nobody did.
class SmallestGap {
 public:
  void add(const Sequence& sequence) {
    if (sequence.token_gap_ms > 0.0F) add(static_cast<double>(sequence.token_gap_ms));
  }
  void add(double gap_ms) { ms_ = std::min(ms_, gap_ms); }
  bool is_known() const { return ms_ < std::numeric_limits<double>::infinity(); }
  double ms() const { return ms_; }

 private:
  double ms_ = std::numeric_limits<double>::infinity();
};

class RestRule {
 public:
  // `best_prompt`: the best priority with a prompt to compute, if any.
  explicit RestRule(std::optional<std::int32_t> best_prompt) : best_prompt_(best_prompt) {}

  // Asked of all decodes, in their order.
  bool may_rest(const Sequence& sequence) {
    const std::int32_t priority = sequence.order.priority;
    if (equals_ != priority) of_betters_.add(std::exchange(of_equals_, {}).ms());
    equals_ = priority;
    of_equals_.add(sequence);
    return patience_ms(sequence) >= kRestFactor * of_betters_.ms() ||
           (best_prompt_ && *best_prompt_ < priority);
  }

 private:
  std::optional<std::int32_t> best_prompt_;
  std::int32_t equals_ = std::numeric_limits<std::int32_t>::min();
  SmallestGap of_betters_;
  SmallestGap of_equals_;
};

}  // namespace turnstile::engine
