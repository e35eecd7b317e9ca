#include "bench/load/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace turnstile::load {

double quantile(const std::vector<double>& ascending, double q) {
  assert(!ascending.empty() && q >= 0 && q <= 1 && "a quantile needs values and a share");
  // 0.95 * 20 is 19.000000000000004 in binary: the slack keeps whole ranks whole.
  const double rank = std::ceil(q * static_cast<double>(ascending.size()) - 1e-9);
  return ascending[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

std::optional<Summary> summarize(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Summary summary;
  summary.count = values.size();
  summary.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  summary.min = values.front();
  summary.p50 = quantile(values, 0.50);
  summary.p90 = quantile(values, 0.90);
  summary.p95 = quantile(values, 0.95);
  if (values.size() >= kMinForP99) summary.p99 = quantile(values, 0.99);
  summary.max = values.back();
  return summary;
}

}  // namespace turnstile::load
