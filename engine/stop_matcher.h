// stop_matcher.h: finds stop strings in a text that arrives piece by piece, and says how much of it
// must be held back because it may still become one.
//
//   stops "STOP", "TO"     text ... S T O x        "TO" ends first: it wins over "STOP"
//   stops "END", "BEND"    text ... B E N D        both end here: the longer one wins
//   stop  "abab"           text ... a b a          holds 3 bytes
//
// The earliest end wins; of the stops that end at the same byte, the longest. What is held back is
// exactly the longest suffix of the text that begins some stop string.
//
// One automaton of Knuth, Morris, Pratt ("Fast Pattern Matching in Strings", 1977) for each string:
// with at most kMaxStopStrings of them that is as fast as one joint automaton (Aho, Corasick 1975)
// and needs 2 bytes of table a byte instead of 512.
//
// Bytes, not characters: stop strings and text are whole UTF-8, and a lead byte never continues a
// character, so a match begins and ends between characters.
//
// Thread: StopStrings is immutable and shared by the choices of a request; StopMatcher belongs to
// one choice. Cost: O(bytes x strings), amortised. No allocation after construction.
// Tests:  tests/engine/stop_matcher_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/limits.h"

namespace turnstile::engine {

class StopStrings {
 public:
  StopStrings() = default;
  // REQUIRES: at most kMaxStopStrings, none empty or longer than kMaxStopStringBytes.
  explicit StopStrings(const std::vector<std::string>& strings);

  std::size_t count() const { return patterns_.size(); }
  std::string_view text(std::size_t index) const { return patterns_[index].text; }

 private:
  friend class StopMatcher;
  struct Pattern {
    std::string text;
    // borders[n]: length of the longest proper prefix of the first n bytes that is also their
    // suffix.
    std::vector<std::uint16_t> borders;
  };
  std::vector<Pattern> patterns_;
};

class StopMatcher {
 public:
  struct Match {
    std::size_t end = 0;  // bytes of the pushed piece up to the end of the stop string
    std::uint32_t stop_index = 0;
    std::size_t stop_bytes = 0;
  };

  // Reads `piece` up to the first match, which ends the search: push nothing afterwards.
  std::optional<Match> push(const StopStrings& stops, std::string_view piece);

  // Bytes at the end of the text so far that may still become a stop string.
  std::size_t held_bytes(const StopStrings& stops) const;

 private:
  std::array<std::uint16_t, kMaxStopStrings> matched_{};  // prefix length that the text ends with
};

}  // namespace turnstile::engine
