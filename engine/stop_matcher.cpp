#include "engine/stop_matcher.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {

StopStrings::StopStrings(const std::vector<std::string>& strings) {
  assert(strings.size() <= kMaxStopStrings && "the request was checked");
  for (const std::string& text : strings) {
    assert(!text.empty() && text.size() <= kMaxStopStringBytes && "the request was checked");
    Pattern pattern{text, std::vector<std::uint16_t>(text.size() + 1, 0)};
    std::size_t border = 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.borders[border];
      if (text[i] == text[border]) ++border;
      pattern.borders[i + 1] = static_cast<std::uint16_t>(border);
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::optional<StopMatcher::Match> StopMatcher::push(const StopStrings& stops,
                                                    std::string_view piece) {
  if (stops.count() == 0) return std::nullopt;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    std::optional<Match> found;
    for (std::size_t p = 0; p < stops.count(); ++p) {
      const StopStrings::Pattern& pattern = stops.patterns_[p];
      std::size_t matched = matched_[p];
      while (matched > 0 && piece[i] != pattern.text[matched]) matched = pattern.borders[matched];
      if (piece[i] == pattern.text[matched]) ++matched;
      matched_[p] = static_cast<std::uint16_t>(matched);
      const bool is_complete = matched == pattern.text.size();
      if (is_complete && (!found || matched > found->stop_bytes)) {
        found = Match{i + 1, static_cast<std::uint32_t>(p), matched};
      }
    }
    if (found) return found;
  }
  return std::nullopt;
}

std::size_t StopMatcher::held_bytes(const StopStrings& stops) const {
  return *std::max_element(matched_.begin(),
                           matched_.begin() + static_cast<std::ptrdiff_t>(
                                                  std::max<std::size_t>(stops.count(), 1)));
}

}  // namespace turnstile::engine
