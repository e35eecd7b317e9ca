// special_tokens.h: finds the names of special tokens in text.
//
// The names are kept sorted; at a position the range of names that share the bytes read so far
// narrows byte by byte, so a position costs at most the longest common start with any name, and
// positions whose byte begins no name cost nothing but a table look-up.
//
// Thread: immutable after construction; const use from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/token_id.h"

namespace turnstile::engine {

struct SpecialMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  TokenId id = 0;
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  // Names are not empty. Of equal names the smallest id counts.
  explicit SpecialTokens(std::vector<std::pair<std::string, TokenId>> names);

  // The first name in text[from..]: leftmost, then longest.
  std::optional<SpecialMatch> find(std::string_view text, std::size_t from) const;

 private:
  std::optional<SpecialMatch> match_at(std::string_view text, std::size_t begin) const;

  std::vector<std::pair<std::string, TokenId>> names_;  // sorted
  // names_[first_[b] .. first_[b + 1]) begin with byte b.
  std::array<std::uint32_t, 257> first_{};
};

}  // namespace turnstile::engine
