#include "bench/load/statistics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace turnstile::load {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Quantile, IsAMeasuredValueOfTheRightRank) {
  const struct { int n; double q; double expected; } table[] = {
      {1, 0.5, 1},    {1, 0.99, 1},   {2, 0.5, 1},      {3, 0.5, 2},      {4, 0.5, 2},
      {10, 0.9, 9},   {10, 0.91, 10}, {20, 0.95, 19},   {100, 0.99, 99},  {100, 1.0, 100},
      {100, 0.0, 1},  {1000, 0.5, 500}, {299, 0.99, 297}, {1000, 0.999, 999}};
  for (const auto& row : table) {
    EXPECT_EQ(quantile(one_to(row.n), row.q), row.expected) << row.n << " at " << row.q;
  }
}

TEST(Summary, SortsAndAverages) {
  const auto summary = summarize({5, 1, 3});
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->count, 3u);
  EXPECT_EQ(summary->mean, 3);
  EXPECT_EQ(summary->min, 1);
  EXPECT_EQ(summary->p50, 3);
  EXPECT_EQ(summary->max, 5);
}

TEST(Summary, HasNoP99BelowTheSamplesThatBoundIt) {
  EXPECT_FALSE(summarize(one_to(298))->p99);
  EXPECT_EQ(summarize(one_to(299))->p99, 297);
}

TEST(Summary, OfNothingIsAbsentAndNotZero) { EXPECT_FALSE(summarize({})); }

}  // namespace
}  // namespace turnstile::load
