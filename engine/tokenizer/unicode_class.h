// unicode_class.h: whether a code point is a letter, a number, white space or something else.
//
// Letter = general categories L*, number = N*, white space = the property White_Space, all of
// Unicode 15.0. These are \p{L}, \p{N} and \s of the patterns that pre-tokenizers are named after.
//
// Cost: an array access below U+10000 (inline for ASCII), a binary search over ranges above.
// Tests: tests/engine/tokenizer_unicode_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace turnstile::engine {

enum class CharClass : std::uint8_t { Other, Letter, Number, Space };

constexpr std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter) classes[c] = CharClass::Letter;
    if (c >= '0' && c <= '9') classes[c] = CharClass::Number;
    if (c == ' ' || (c >= 0x9 && c <= 0xD)) classes[c] = CharClass::Space;
  }
  return classes;
}
inline constexpr auto kAsciiClasses = make_ascii_classes();

CharClass classify_beyond_ascii(std::uint32_t code_point);

inline CharClass classify(std::uint32_t code_point) {
  return code_point < 128 ? kAsciiClasses[code_point] : classify_beyond_ascii(code_point);
}

struct CodePointRange {
  std::uint32_t first;
  std::uint32_t last;
};

// Sorted, disjoint. In unicode_ranges.cpp, which make_unicode_classes.py writes.
std::span<const CodePointRange> letter_ranges();
std::span<const CodePointRange> number_ranges();

}  // namespace turnstile::engine
