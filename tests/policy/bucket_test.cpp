#include "policy/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "policy/policy_set.h"

namespace turnstile::policy {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Bucket bucket_of(std::int64_t per_minute, std::int64_t capacity) {
  return Bucket("tokens_per_minute/team/lab", "team/lab", Bucket::Limit{per_minute, capacity},
                Instant{});
}

TEST(Bucket, StartsFullAndRefillsAtItsRate) {
  Bucket bucket = bucket_of(60, 15);
  Instant now{};
  EXPECT_EQ(bucket.available(now), 15);
  bucket.take(now, 15);
  EXPECT_EQ(bucket.available(now), 0);
  EXPECT_FALSE(bucket.fits(now, 1));
  now += seconds(1) - Duration{1};
  EXPECT_FALSE(bucket.fits(now, 1));
  now += Duration{1};
  EXPECT_TRUE(bucket.fits(now, 1));
  now += seconds(100);
  EXPECT_EQ(bucket.available(now), 15) << "never more than full";
}

TEST(Bucket, WaitIsExactToTheMicrosecond) {
  Bucket bucket = bucket_of(7, 3);
  Instant now{seconds(1)};
  bucket.take(now, 3);
  const Duration wait = *bucket.wait_for(now, 2);
  EXPECT_TRUE(bucket.fits(now + wait, 2));
  EXPECT_FALSE(bucket.fits(now + wait - microseconds(1), 2));
  EXPECT_EQ(bucket.wait_for(now, 4), std::nullopt) << "more than a full bucket";
  EXPECT_EQ(bucket.wait_for(now + seconds(60), 3), Duration{0});
}

TEST(Bucket, GivingBackAtOnceLeavesNoTrace) {
  Bucket bucket = bucket_of(977, 244);
  Instant now{};
  bucket.take(now, 100);
  now += Duration{123'456'789};
  const Duration until_full = bucket.until_full(now);
  bucket.take(now, 100);
  bucket.give(now, 100);
  EXPECT_EQ(bucket.until_full(now), until_full);
  EXPECT_EQ(bucket.held(), 100);
}

TEST(Bucket, GivingBackNeverOverfills) {
  Bucket bucket = bucket_of(60, 15);
  Instant now{};
  bucket.take(now, 10);
  now += seconds(60);
  bucket.give(now, 10);
  EXPECT_EQ(bucket.available(now), 15);
}

TEST(Bucket, DebtIsEarnedBackBeforeAnythingFits) {
  Bucket bucket = bucket_of(60, 15);
  Instant now{};
  bucket.take(now, 20);
  EXPECT_EQ(bucket.available(now), -5);
  EXPECT_EQ(bucket.wait_for(now, 1), Duration{seconds(6)});
  now += milliseconds(500);
  EXPECT_EQ(bucket.available(now), -5) << "a half token of debt rounds up";
}

TEST(Bucket, SettlingKeepsTheTokensSpent) {
  Bucket bucket = bucket_of(60, 15);
  Instant now{};
  bucket.take(now, 10);
  bucket.settle(10);
  EXPECT_EQ(bucket.held(), 0);
  EXPECT_EQ(bucket.available(now), 5);
}

TEST(Bucket, ZeroRateNeverGrants) {
  const Bucket bucket = bucket_of(0, 1);
  EXPECT_FALSE(bucket.fits(Instant{seconds(1000)}, 1));
  EXPECT_EQ(bucket.wait_for(Instant{}, 1), std::nullopt);
  EXPECT_EQ(bucket.available(Instant{}), 0);
}

TEST(Bucket, NoLimitGrantsAndCounts) {
  Bucket bucket("", "", std::nullopt, Instant{});
  EXPECT_TRUE(bucket.fits(Instant{}, 1'000'000'000));
  bucket.take(Instant{}, 7);
  EXPECT_EQ(bucket.held(), 7);
  bucket.give(Instant{}, 7);
  EXPECT_EQ(bucket.held(), 0);
}

TEST(Bucket, NewLimitEarnsAtTheOldRateFirst) {
  Bucket bucket = bucket_of(60, 60);
  Instant now{};
  bucket.take(now, 60);
  now += seconds(30);
  bucket.set_limit(now, Bucket::Limit{6000, 20});
  EXPECT_EQ(bucket.available(now), 20) << "30 were earned, 20 fit";
  bucket.take(now, 20);
  now += seconds(1);
  bucket.set_limit(now, Bucket::Limit{60, 1000});
  EXPECT_EQ(bucket.available(now), 20) << "a full bucket stays at what it held";
  now += seconds(2);
  EXPECT_EQ(bucket.available(now), 22);
}

TEST(Bucket, LongIdleTimeAndLargeLimitsStayInRange) {
  Bucket bucket = bucket_of(kMaxPerMinute, kMaxPerMinute);
  Instant now{};
  bucket.take(now, kMaxPerMinute);
  bucket.take(now, kMaxPerMinute / 2);
  EXPECT_EQ(bucket.available(now), -kMaxPerMinute / 2);
  now += std::chrono::hours(24 * 365 * 100);
  EXPECT_EQ(bucket.available(now), kMaxPerMinute);
}

// Model check: a reference that keeps the level as an exact fraction of nanoseconds.
TEST(Bucket, AgreesWithAnExactReferenceOnRandomSteps) {
  std::uint64_t seed = 7;
  const auto next = [&seed](std::uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((seed >> 33) % below);
  };
  for (int round = 0; round < 200; ++round) {
    const std::int64_t rate = 1 + next(10'000);
    const std::int64_t capacity = 1 + next(500);
    Bucket bucket = bucket_of(rate, capacity);
    constexpr std::int64_t kUnit = 60'000'000;
    std::int64_t level = capacity * kUnit;
    Instant now{};
    for (int step = 0; step < 200; ++step) {
      const std::int64_t pause_us = next(3) == 0 ? 0 : next(50'000);
      now += microseconds(pause_us);
      level = std::min(capacity * kUnit, level + pause_us * rate);
      const std::int64_t amount = next(static_cast<std::uint64_t>(capacity) + 3);
      ASSERT_EQ(bucket.fits(now, amount), level >= amount * kUnit);
      if (next(2) == 0) {
        bucket.take(now, amount);
        level -= amount * kUnit;
      } else if (bucket.held() >= amount) {
        bucket.give(now, amount);
        level = std::min(capacity * kUnit, level + amount * kUnit);
      }
    }
  }
}

TEST(BucketCapacity, IsAShareOfTheMinuteButNeverZero) {
  EXPECT_EQ(bucket_capacity(60, 250'000), 15);
  EXPECT_EQ(bucket_capacity(3, 250'000), 1);
  EXPECT_EQ(bucket_capacity(0, 250'000), 1);
  EXPECT_EQ(bucket_capacity(7, 500'000), 3);
  EXPECT_EQ(bucket_capacity(kMaxPerMinute, 1'000'000), kMaxPerMinute);
}

}  // namespace
}  // namespace turnstile::policy
