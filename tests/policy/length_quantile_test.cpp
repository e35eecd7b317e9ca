#include "policy/length_quantile.h"

#include <gtest/gtest.h>

namespace turnstile::policy {
namespace {

constexpr std::int64_t kPpm = 1'000'000;

TEST(LengthQuantile, SaysNothingBeforeItHasSeenEnough) {
  LengthQuantile lengths;
  for (int i = 0; i < 15; ++i) lengths.learn(100);
  EXPECT_EQ(lengths.at(kPpm, 0), std::nullopt);
  lengths.learn(100);
  EXPECT_EQ(lengths.at(kPpm, 0), 128) << "the upper end of its bucket";
}

TEST(LengthQuantile, IsNeverBelowTheShareOfAnswersAskedFor) {
  LengthQuantile lengths;
  for (std::int64_t length = 1; length <= 200; ++length) lengths.learn(length);
  for (const std::int64_t percent : {10, 50, 90, 99, 100}) {
    const auto length = lengths.at(percent * kPpm / 100, 0);
    ASSERT_TRUE(length);
    EXPECT_GE(*length, 2 * percent) << percent;
    EXPECT_LE(*length, 3 * percent + 2) << percent;
  }
}

// Half of the answers have 10 tokens, half 1,000: whoever passes 12 is one of the long ones.
TEST(LengthQuantile, LooksOnlyAtAnswersThatWentFurther) {
  LengthQuantile lengths;
  for (int i = 0; i < 40; ++i) lengths.learn(i % 2 == 0 ? 10 : 1000);
  EXPECT_EQ(lengths.at(kPpm / 2, 0), 12);
  EXPECT_EQ(lengths.at(kPpm / 2, 12), 1024);
  EXPECT_EQ(lengths.at(kPpm / 2, 1024), std::nullopt);
}

TEST(LengthQuantile, OldAnswersFade) {
  LengthQuantile lengths;
  for (int i = 0; i < 500; ++i) lengths.learn(1000);
  for (int i = 0; i < 3000; ++i) lengths.learn(10);
  EXPECT_EQ(lengths.at(kPpm * 95 / 100, 0), 12);
}

TEST(LengthQuantile, LengthsBeyondAllBucketsCountInTheLast) {
  LengthQuantile lengths;
  for (int i = 0; i < 20; ++i) lengths.learn(INT64_MAX);
  lengths.learn(0);
  EXPECT_GE(*lengths.at(kPpm, 0), std::int64_t{1} << 24);
}

}  // namespace
}  // namespace turnstile::policy
