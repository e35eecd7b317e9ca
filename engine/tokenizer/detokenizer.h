// detokenizer.h: turns the bytes of generated tokens into whole UTF-8 characters.
//
// A token may end in the middle of a character. Bytes are held back only while they can still
// become a character (never more than 3), so whatever comes out is valid UTF-8 and is never
// changed by later tokens. A sequence of bytes that cannot become a character is replaced by
// U+FFFD, one for each maximal subpart, as Python's errors="replace" does (Unicode 15, table 3-7
// and section 3.9 "U+FFFD Substitution of Maximal Subparts").
//
//   append("\xe4\xbd") -> ""        append("\xa0!") -> "\xe4\xbd\xa0!"
//   append("\xe4")     -> ""        append("a")     -> "\ufffda"
//
// Thread: one Detokenizer per sequence; no locking.
// Cost:   O(bytes); allocates only inside `out`.
// Tests:  tests/engine/detokenizer_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace turnstile::engine {

class Detokenizer {
 public:
  // Appends to `out` every character that is complete now.
  void append(std::string_view token_bytes, std::string& out);
  // At the end of the text: what is still pending is cut short, so it becomes one U+FFFD.
  void flush(std::string& out);
  std::size_t pending_bytes() const { return pending_count_; }

 private:
  std::array<char, 3> pending_{};
  std::uint8_t pending_count_ = 0;
  std::uint8_t needed_ = 0;                      // continuation bytes still to come
  std::uint8_t lowest_ = 0x80, highest_ = 0xBF;  // allowed range of the next one
};

}  // namespace turnstile::engine
