#include "gateway/ids.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

#include "gateway/timestamp.h"
#include "tests/support/manual_clock.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

TEST(RequestIds, AreUniqueAndInTheOrderOfTheirMaking) {
  SeededRandom random(1);
  RequestIds ids(random);
  ManualClock clock;
  std::string last;
  for (int i = 0; i < 200'000; ++i) {
    const std::string id = ids.next(clock.wall());
    ASSERT_EQ(id.size(), 32U);
    ASSERT_LT(last, id);
    last = id;
    if (i % 150'000 == 149'999) clock.advance(1ms);  // more than 65,536 in one millisecond
  }
}

TEST(RequestIds, AClockThatGoesBackBreaksNothing) {
  SeededRandom random(1);
  RequestIds ids(random);
  ManualClock clock;
  const std::string first = ids.next(clock.wall());
  clock.jump_wall(-1h);
  EXPECT_LT(first, ids.next(clock.wall()));
}

TEST(RequestIds, RepeatWithTheSeedAndStartWithTheTime) {
  ManualClock clock;
  SeededRandom a(7);
  SeededRandom b(7);
  EXPECT_EQ(RequestIds(a).next(clock.wall()), RequestIds(b).next(clock.wall()));
  SystemRandom system;
  // 2026-01-01 is 1767225600000 ms, 0x19b76daa800.
  EXPECT_TRUE(RequestIds(system).next(clock.wall()).starts_with("019b76daa8000000"));
  EXPECT_NE(RequestIds(system).next(clock.wall()), RequestIds(system).next(clock.wall()));
}

TEST(ClientRequestId, IsKeptOnlyInItsNarrowForm) {
  for (const std::string& good : {std::string("a"), std::string("A.b_c-9"), std::string(64, 'x')}) {
    EXPECT_TRUE(is_acceptable_client_id(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string(65, 'x'), std::string("a b"), std::string("a\r\nb"),
        std::string("a\0b", 3), std::string("\xC3\xA4"), std::string("a/b"), std::string("a\"b")}) {
    EXPECT_FALSE(is_acceptable_client_id(bad)) << bad;
  }
}

TEST(Timestamp, TextsAndTimesAgreeBothWays) {
  ManualClock clock;
  clock.advance(8h + 15min + 3s + 123us);
  EXPECT_EQ(timestamp(clock.wall()), "2026-01-01T08:15:03.000123Z");
  EXPECT_EQ(parse_timestamp("2026-01-01T08:15:03.000123Z"), clock.wall());
  EXPECT_EQ(parse_timestamp("2026-01-01T10:15:03.000123+02:00"), clock.wall());
  EXPECT_EQ(timestamp(*parse_timestamp("2026-02-28")), "2026-02-28T00:00:00.000000Z");
  EXPECT_EQ(timestamp(*parse_timestamp("1969-12-31T23:59:59.5Z")), "1969-12-31T23:59:59.500000Z");
  // As a key's expiry is written that shall never come: it does not fit 64 bits of nanoseconds.
  EXPECT_GT(*parse_timestamp("9999-12-31"), clock.wall() + std::chrono::years(100));
  EXPECT_GT(*parse_timestamp("9999-12-31T23:59:59-23:59"), clock.wall() + std::chrono::years(100));
  EXPECT_LT(*parse_timestamp("0000-01-01"), clock.wall() - std::chrono::years(100));
  for (const char* bad :
       {"", "2026", "2026-13-01", "2026-02-29", "2026-01-01T", "2026-01-01T00:00:00",
        "2026-01-01T25:00:00Z", "2026-01-01T00:00:00.Z", "2026-01-01x", " 2026-01-01", "24h"}) {
    EXPECT_FALSE(parse_timestamp(bad)) << bad;
  }
}

}  // namespace
}  // namespace turnstile::gateway
