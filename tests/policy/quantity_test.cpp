#include "policy/quantity.h"

#include <gtest/gtest.h>

namespace turnstile::policy {
namespace {

TEST(Quantity, CountsWithAndWithoutSuffix) {
  struct Row {
    std::string_view text;
    std::optional<std::int64_t> count;
  };
  for (const Row& row : {
           Row{"0", 0}, Row{"17", 17}, Row{"2k", 2'000}, Row{"40M", 40'000'000},
           Row{"1G", 1'000'000'000}, Row{"9223372036854775807", INT64_MAX},
           Row{"9223372036854775808", std::nullopt}, Row{"9223372036854775807k", std::nullopt},
           Row{"", std::nullopt}, Row{"k", std::nullopt}, Row{"-1", std::nullopt},
           Row{"+1", std::nullopt}, Row{" 1", std::nullopt}, Row{"1 ", std::nullopt},
           Row{"1 k", std::nullopt}, Row{"1K", std::nullopt}, Row{"1m", std::nullopt},
           Row{"1.5k", std::nullopt}, Row{"1e3", std::nullopt}, Row{"0x10", std::nullopt},
       }) {
    EXPECT_EQ(parse_count(row.text), row.count) << '"' << row.text << '"';
  }
}

TEST(Quantity, DurationsNeedAUnit) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  using std::chrono::seconds;
  struct Row {
    std::string_view text;
    std::optional<Duration> duration;
  };
  for (const Row& row : {
           Row{"800ms", Duration{milliseconds(800)}}, Row{"2s", Duration{seconds(2)}},
           Row{"10m", Duration{minutes(10)}}, Row{"24h", Duration{hours(24)}},
           Row{"0s", Duration{0}}, Row{"2", std::nullopt}, Row{"s", std::nullopt},
           Row{"", std::nullopt}, Row{"-2s", std::nullopt}, Row{"2 s", std::nullopt},
           Row{"2sec", std::nullopt}, Row{"1d", std::nullopt}, Row{"1.5s", std::nullopt},
           Row{"1m30s", std::nullopt}, Row{"9223372036854775807h", std::nullopt},
       }) {
    EXPECT_EQ(parse_duration(row.text), row.duration) << '"' << row.text << '"';
  }
}

TEST(Quantity, DurationsAreWrittenInTheLargestUnitThatFits) {
  for (const std::string text : {"0ms", "1ms", "1500ms", "90s", "59m", "24h"}) {
    const auto duration = parse_duration(text);
    ASSERT_TRUE(duration) << text;
    using std::chrono::milliseconds;
    EXPECT_EQ(duration_text(std::chrono::duration_cast<milliseconds>(*duration)), text);
  }
}

}  // namespace
}  // namespace turnstile::policy
