#include "engine/tokenizer/special_tokens.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

SpecialTokens::SpecialTokens(std::vector<std::pair<std::string, TokenId>> names)
    : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; }),
               names_.end());
  std::size_t index = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    first_[byte] = static_cast<std::uint32_t>(index);
    while (index < names_.size() && byte_at(names_[index].first, 0) == byte) ++index;
  }
  first_[256] = static_cast<std::uint32_t>(index);
  assert(index == names_.size() && "every name begins with some byte");
}

std::optional<SpecialMatch> SpecialTokens::match_at(std::string_view text,
                                                    std::size_t begin) const {
  std::size_t low = first_[byte_at(text, begin)];
  std::size_t high = first_[byte_at(text, begin) + 1];
  std::optional<SpecialMatch> longest;
  // All of names_[low, high) agree with the text in their first `depth` bytes.
  for (std::size_t depth = 1; low < high; ++depth) {
    if (names_[low].first.size() == depth) {
      longest = {begin, begin + depth, names_[low].second};
      ++low;
    }
    if (begin + depth >= text.size()) break;
    const unsigned wanted = byte_at(text, begin + depth);
    const auto at = names_.begin();
    low = static_cast<std::size_t>(
        std::partition_point(at + low, at + high,
                             [&](const auto& n) { return byte_at(n.first, depth) < wanted; }) -
        at);
    high = static_cast<std::size_t>(
        std::partition_point(at + low, at + high,
                             [&](const auto& n) { return byte_at(n.first, depth) == wanted; }) -
        at);
  }
  return longest;
}

std::optional<SpecialMatch> SpecialTokens::find(std::string_view text, std::size_t from) const {
  if (names_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    const unsigned byte = byte_at(text, at);
    if (first_[byte] == first_[byte + 1]) continue;
    if (auto match = match_at(text, at)) return match;
  }
  return std::nullopt;
}

}  // namespace turnstile::engine
