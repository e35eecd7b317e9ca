#include "bench/load/verdict.h"

#include <algorithm>
#include <cstdio>

#include "bench/load/statistics.h"

namespace turnstile::load {
namespace {

template <class... Values>
std::string sentence(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

Verdict judge(const LoadResult& result, std::optional<double> median_ttft_ms) {
  Verdict verdict;
  std::vector<double> lags_ms;
  for (const Record& record : result.records) {
    if (record.outcome != Outcome::Unsent) {
      lags_ms.push_back(to_ms(record.noticed - record.scheduled));
    }
  }
  if (const auto lag = summarize(std::move(lags_ms))) {
    verdict.lag_p50_ms = lag->p50;
    verdict.lag_p99_ms = lag->p99.value_or(lag->max);
    verdict.lag_max_ms = lag->max;
  }
  verdict.own_cpu_share = result.wall > Time::zero() ? to_ms(result.own_cpu) / to_ms(result.wall)
                                                     : 0;
  verdict.longest_turn_ms = to_ms(result.longest_turn);

  const double max_lag_ms =
      std::max(kMaxLagMs, kMaxLagShareOfTtft * median_ttft_ms.value_or(0));
  if (verdict.lag_p99_ms > max_lag_ms) {
    verdict.reasons.push_back(sentence("requests were sent %.2f ms late at p99 (limit %.2f ms)",
                                       verdict.lag_p99_ms, max_lag_ms));
  }
  if (verdict.own_cpu_share > kMaxOwnCpuShare) {
    verdict.reasons.push_back(sentence("the client used %.0f %% of its core (limit %.0f %%)",
                                       100 * verdict.own_cpu_share, 100 * kMaxOwnCpuShare));
  }
  if (verdict.longest_turn_ms > kMaxTurnMs) {
    verdict.reasons.push_back(sentence("the client did not look at its sockets for %.0f ms "
                                       "(limit %.0f ms)", verdict.longest_turn_ms, kMaxTurnMs));
  }
  return verdict;
}

}  // namespace turnstile::load
