#include "policy/ttft_predictor.h"

#include <gtest/gtest.h>

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One unit a millisecond, in one window.
TtftPredictor paced() {
  TtftPredictor predictor(2);
  predictor.on_step(milliseconds(1000), 1000, true);
  return predictor;
}

TEST(TtftPredictor, NothingIsKnownBeforeAFullWindowInWhichSomebodyWaited) {
  TtftPredictor predictor(1);
  EXPECT_FALSE(predictor.knows_pace());
  predictor.on_step(milliseconds(1000), 10, false);
  EXPECT_FALSE(predictor.knows_pace()) << "an idle engine delivers little because little is asked";
  predictor.on_step(milliseconds(150), 150, true);
  EXPECT_FALSE(predictor.knows_pace());
  predictor.on_step(milliseconds(50), 50, true);
  ASSERT_TRUE(predictor.knows_pace());
  EXPECT_EQ(predictor.time_for(1500), Duration{milliseconds(1500)});
  EXPECT_EQ(predictor.time_for(0), Duration{0});
}

TEST(TtftPredictor, SlowWindowsCountOnlyWhileSomebodyWaits) {
  TtftPredictor predictor = paced();
  predictor.on_step(milliseconds(1000), 10, false);
  EXPECT_EQ(predictor.time_for(100), Duration{milliseconds(100)});
  predictor.on_step(milliseconds(1000), 500, true);
  EXPECT_EQ(predictor.time_for(100), Duration{milliseconds(150)});
  predictor.on_step(milliseconds(1000), 10'000, false);
  EXPECT_LT(predictor.time_for(100), Duration{milliseconds(104)}) << "it can be faster than known";
}

TEST(TtftPredictor, PaceIsTheMeanOfItsFirstWindowsAndMovesByATwelfthThen) {
  TtftPredictor predictor = paced();
  predictor.on_step(milliseconds(5000), 1000, true);
  predictor.on_step(milliseconds(6000), 1000, true);
  EXPECT_EQ(predictor.time_for(1000), Duration{milliseconds(4000)}) << "of 1, 5 and 6";
  for (int i = 0; i < 20; ++i) predictor.on_step(milliseconds(4000), 1000, true);
  predictor.on_step(milliseconds(16'000), 1000, true);
  EXPECT_EQ(predictor.time_for(1000), Duration{milliseconds(5000)});
}

TEST(TtftPredictor, HugeBacklogsStayInsideTheRange) {
  TtftPredictor predictor(1);
  predictor.on_step(std::chrono::hours(100), 1, true);
  EXPECT_EQ(predictor.time_for(INT64_MAX), Duration{std::chrono::hours(24)});
  EXPECT_GT(predictor.likely(0, std::chrono::hours(24)).count(), 0);
}

// Actual times spread evenly from one to three times the raw prediction: the median ratio ends near
// two, the ninth decile near 2.8.
TEST(TtftPredictor, RatiosSettleAtTheirQuantiles) {
  TtftPredictor predictor(2);
  std::uint64_t state = 1;
  for (int i = 0; i < 4000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto extra = static_cast<std::int64_t>(state >> 33) % 2000;
    predictor.learn(0, seconds(1), milliseconds(1000 + extra));
  }
  EXPECT_NEAR(static_cast<double>(predictor.likely(0, seconds(1)).count()), 2.0e9, 0.4e9);
  EXPECT_NEAR(static_cast<double>(predictor.safe(0, seconds(1)).count()), 2.8e9, 0.4e9);
  EXPECT_EQ(predictor.likely(1, seconds(1)), Duration{seconds(1)}) << "each class learns alone";
}

TEST(TtftPredictor, RatioNeverRunsAway) {
  TtftPredictor predictor(1);
  for (int i = 0; i < 1000; ++i) predictor.learn(0, milliseconds(1), seconds(1000));
  EXPECT_EQ(predictor.likely(0, seconds(1)), Duration{seconds(8)});
  for (int i = 0; i < 1000; ++i) predictor.learn(0, seconds(1), Duration{1});
  EXPECT_EQ(predictor.likely(0, seconds(8)), Duration{seconds(1)});
}

}  // namespace
}  // namespace turnstile::policy
