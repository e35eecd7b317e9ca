// verdict.h: whether the client itself was the limit of a run.
//
// A client that is late, busy or stalled measures itself. Such a run is invalid and says why; its
// figures are printed all the same, but nobody should quote them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/load/load_loop.h"

namespace turnstile::load {

inline constexpr double kMaxLagMs = 1.0;           // p99 of (noticed - scheduled), open loop,
inline constexpr double kMaxLagShareOfTtft = 0.02; // or this share of the median TTFT if larger
inline constexpr double kMaxOwnCpuShare = 0.85;    // of one core: the loop is one thread
inline constexpr double kMaxTurnMs = 50.0;         // the loop was away from its sockets this long

struct Verdict {
  double lag_p50_ms = 0;
  double lag_p99_ms = 0;  // of few requests the maximum
  double lag_max_ms = 0;
  double own_cpu_share = 0;
  double longest_turn_ms = 0;
  std::vector<std::string> reasons;  // empty: valid

  bool is_valid() const { return reasons.empty(); }
};

Verdict judge(const LoadResult& result, std::optional<double> median_ttft_ms);

}  // namespace turnstile::load
