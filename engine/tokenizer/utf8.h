// utf8.h: one step of a UTF-8 decoder that never fails.
//
// A byte that starts no well-formed character (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF) is one invalid character of one byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace turnstile::engine {

// What an invalid byte decodes to; above every code point.
inline constexpr std::uint32_t kInvalidCodePoint = 0xFFFF'FFFFu;

struct DecodedChar {
  std::uint32_t code_point;
  std::size_t byte_count;  // 1 to 4
};

// Decodes the character at `at`, which must be below text.size().
inline DecodedChar decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[at + i]);
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const std::size_t left = text.size() - at;
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first <= 0xDF && left >= 2 && continues(1)) {
    return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  }
  if (first >= 0xE0 && first <= 0xEF && left >= 3 && continues(1) && continues(2)) {
    const std::uint32_t c = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {c, 3};
  }
  if (first >= 0xF0 && first <= 0xF4 && left >= 4 && continues(1) && continues(2) && continues(3)) {
    const std::uint32_t c =
        (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c >= 0x10000 && c <= 0x10FFFF) return {c, 4};
  }
  return {kInvalidCodePoint, 1};
}

// Appends a code point below 0x110000.
inline void append_utf8(std::uint32_t c, std::string& out) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace turnstile::engine
