// statistics.h: what a set of measured values says.
//
// Quantiles are order statistics (the ceil(q n)-th smallest), never interpolated: each reported
// value was measured. Below kMinForP99 samples there is no p99, because the largest value is then
// not a bound for it with 95 % confidence (0.99^298 > 0.05 > 0.99^299); read the maximum instead.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace turnstile::load {

inline constexpr std::size_t kMinForP99 = 299;

struct Summary {
  std::size_t count = 0;
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  std::optional<double> p99;
  double max = 0;
};

// Needs ascending values, at least one, and 0 <= q <= 1.
double quantile(const std::vector<double>& ascending, double q);

// Nothing when there is no value: "not measured" is not zero.
std::optional<Summary> summarize(std::vector<double> values);

}  // namespace turnstile::load
