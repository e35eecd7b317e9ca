#include "bench/load/verdict.h"

#include <gtest/gtest.h>

namespace turnstile::load {
namespace {

using namespace std::chrono_literals;

// 400 requests, one every 10 ms, each noticed `lag` after its time.
LoadResult run_with_lag(Time lag) {
  LoadResult result;
  for (int i = 0; i < 400; ++i) {
    Record record;
    record.scheduled = i * 10ms;
    record.noticed = record.scheduled + lag;
    record.outcome = Outcome::Completed;
    result.records.push_back(record);
  }
  result.wall = 4s;
  result.own_cpu = 100ms;
  result.longest_turn = 1ms;
  return result;
}

TEST(Verdict, APunctualIdleClientIsValid) {
  const Verdict verdict = judge(run_with_lag(100us), 20.0);
  EXPECT_TRUE(verdict.is_valid());
  EXPECT_NEAR(verdict.lag_p99_ms, 0.1, 1e-9);
  EXPECT_NEAR(verdict.own_cpu_share, 0.025, 1e-9);
}

TEST(Verdict, ALateClientIsInvalidMeasuredAgainstWhatItMeasures) {
  EXPECT_FALSE(judge(run_with_lag(2ms), 20.0).is_valid());
  EXPECT_FALSE(judge(run_with_lag(2ms), std::nullopt).is_valid());
  // Two milliseconds are nothing beside a first token of a second.
  EXPECT_TRUE(judge(run_with_lag(2ms), 1000.0).is_valid());
}

TEST(Verdict, ABusyClientIsInvalid) {
  LoadResult result = run_with_lag(0ms);
  result.own_cpu = 3'600ms;
  EXPECT_FALSE(judge(result, 20.0).is_valid());
}

TEST(Verdict, AStalledClientIsInvalid) {
  LoadResult result = run_with_lag(0ms);
  result.longest_turn = 60ms;
  EXPECT_FALSE(judge(result, 20.0).is_valid());
}

TEST(Verdict, RequestsThatWereNeverSentHaveNoLag) {
  LoadResult result = run_with_lag(0ms);
  Record unsent;
  unsent.scheduled = 0ms;
  unsent.noticed = 900ms;
  for (int i = 0; i < 100; ++i) result.records.push_back(unsent);
  EXPECT_TRUE(judge(result, 20.0).is_valid());
}

}  // namespace
}  // namespace turnstile::load
