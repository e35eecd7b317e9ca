#include "bench/load/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace turnstile::load {
namespace {

using std::chrono::nanoseconds;

TEST(OpenLoopSchedule, SameSeedSameTimesOtherSeedOtherTimes) {
  const auto a = open_loop_schedule(Arrival::Poisson, 50, 1000, 7);
  EXPECT_EQ(a, open_loop_schedule(Arrival::Poisson, 50, 1000, 7));
  EXPECT_NE(a, open_loop_schedule(Arrival::Poisson, 50, 1000, 8));
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
}

TEST(OpenLoopSchedule, UniformTimesAreMultiplesOfTheGap) {
  const auto times = open_loop_schedule(Arrival::Uniform, 200, 1001, 1);
  EXPECT_EQ(times[0], nanoseconds(0));
  EXPECT_EQ(times[1], std::chrono::milliseconds(5));
  EXPECT_EQ(times[1000], std::chrono::seconds(5));
}

// Exponential gaps have mean 1/rate and a coefficient of variation of 1; with 100,000 gaps both
// estimates are within 2 % but for a chance below one in a million, and the seed is fixed.
TEST(OpenLoopSchedule, PoissonGapsHaveTheRateAndTheSpreadOfAPoissonProcess) {
  const auto times = open_loop_schedule(Arrival::Poisson, 200, 100'000, 3);
  double sum = 0, squares = 0;
  nanoseconds last{0};
  for (const nanoseconds time : times) {
    const double gap_s = std::chrono::duration<double>(time - last).count();
    sum += gap_s;
    squares += gap_s * gap_s;
    last = time;
  }
  const double n = static_cast<double>(times.size());
  const double mean = sum / n;
  const double deviation = std::sqrt(squares / n - mean * mean);
  EXPECT_NEAR(mean, 1.0 / 200, 0.02 / 200);
  EXPECT_NEAR(deviation / mean, 1.0, 0.02);
}

}  // namespace
}  // namespace turnstile::load
