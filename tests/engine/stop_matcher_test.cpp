#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace turnstile::engine {
namespace {

// By definition: the earliest end of any stop string in `text`, the longest of those ending there.
struct PlainMatch {
  std::size_t end;
  std::uint32_t index;
};

std::optional<PlainMatch> find_plainly(const std::vector<std::string>& stops,
                                       const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<PlainMatch> found;
    for (std::uint32_t s = 0; s < stops.size(); ++s) {
      const std::string& stop = stops[s];
      if (stop.size() > end || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!found || stop.size() > stops[found->index].size()) found = PlainMatch{end, s};
    }
    if (found) return found;
  }
  return std::nullopt;
}

std::size_t held_plainly(const std::vector<std::string>& stops, const std::string& text) {
  std::size_t held = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) held = std::max(held, n);
    }
  }
  return held;
}

TEST(StopMatcher, TheEarliestEndWinsAndTiesGoToTheLongest) {
  struct Case {
    std::vector<std::string> stops;
    std::string text;
    std::size_t end;
    std::uint32_t index;
  };
  const std::vector<Case> cases = {
      {{"STOP"}, "aSTOPb", 5, 0},
      {{"STOP", "TO"}, "xSTOP", 4, 1},
      {{"END", "BEND"}, "aBEND", 5, 1},
      {{"BEND", "END"}, "aBEND", 5, 0},
      {{"aa"}, "baaa", 3, 0},
      {{"abab"}, "abaabab", 7, 0},
      {{"aab"}, "aaab", 4, 0},
      {{"x", "xy"}, "axy", 2, 0},
      {{"\n\n"}, "a\n\nb", 3, 0},
      {{"\xE2\x82\xAC"}, "1\xE2\x82\xAC", 4, 0},
      {{"same", "same"}, "same", 4, 0},
  };
  for (const Case& c : cases) {
    const StopStrings stops(c.stops);
    for (std::size_t cut = 0; cut <= c.text.size(); ++cut) {
      StopMatcher matcher;
      auto match = matcher.push(stops, std::string_view(c.text).substr(0, cut));
      std::size_t before = 0;
      if (!match) {
        before = cut;
        match = matcher.push(stops, std::string_view(c.text).substr(cut));
      }
      ASSERT_TRUE(match) << c.text << " cut at " << cut;
      EXPECT_EQ(before + match->end, c.end) << c.text << " cut at " << cut;
      EXPECT_EQ(match->stop_index, c.index) << c.text;
      EXPECT_EQ(match->stop_bytes, c.stops[c.index].size());
    }
  }
}

TEST(StopMatcher, HoldsExactlyWhatMayStillBecomeAStop) {
  const StopStrings stops({"abab", "bc", "\xE2\x82\xAC"});
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {"", 0},     {"x", 0},   {"a", 1},     {"ab", 2},         {"aba", 3},
      {"abac", 0}, {"abb", 1}, {"abaa", 1},  {"z\xE2", 1},      {"z\xE2\x82", 2},
      {"abax", 0}, {"aab", 2}, {"aaaba", 3}, {"b\xE2\x82z", 0}};
  for (const auto& [text, held] : cases) {
    StopMatcher matcher;
    EXPECT_FALSE(matcher.push(stops, text));
    EXPECT_EQ(matcher.held_bytes(stops), held) << text;
  }
}

// Two-letter alphabet, so that stops overlap themselves and each other.
TEST(StopMatcher, AgreesWithTheDefinitionOnRandomTexts) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto word = [&](std::size_t most) {
      std::string text(1 + random() % most, 'a');
      for (char& c : text) c = "ab"[random() % 2];
      return text;
    };
    std::vector<std::string> strings(1 + random() % kMaxStopStrings);
    for (std::string& s : strings) s = word(6);
    const std::string text = word(30);
    const StopStrings stops(strings);
    StopMatcher matcher;
    std::string seen;
    std::optional<PlainMatch> match;
    while (seen.size() < text.size() && !match) {
      const std::string piece = text.substr(seen.size(), 1 + random() % 4);
      if (const auto found = matcher.push(stops, piece)) {
        match = PlainMatch{seen.size() + found->end, found->stop_index};
      } else {
        seen += piece;
        ASSERT_EQ(matcher.held_bytes(stops), held_plainly(strings, seen)) << "seed " << seed;
      }
    }
    const auto expected = find_plainly(strings, text);
    ASSERT_EQ(match.has_value(), expected.has_value()) << "seed " << seed;
    if (!match) continue;
    EXPECT_EQ(match->end, expected->end) << "seed " << seed;
    EXPECT_EQ(strings[match->index].size(), strings[expected->index].size()) << "seed " << seed;
  }
}

TEST(StopMatcher, WithoutStopStringsNothingIsHeld) {
  const StopStrings none;
  StopMatcher matcher;
  EXPECT_FALSE(matcher.push(none, "anything"));
  EXPECT_EQ(matcher.held_bytes(none), 0U);
}

}  // namespace
}  // namespace turnstile::engine
