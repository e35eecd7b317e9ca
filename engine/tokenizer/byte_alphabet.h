// byte_alphabet.h: the printable alphabet in which byte-level vocabularies spell bytes.
//
// Each of the 256 bytes has a character: printable Latin-1 bytes stand for themselves, the other
// 68 are U+0100, U+0101, ... in byte order (a space is U+0120). The mapping is GPT-2's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::engine {

// The byte that a character of the alphabet stands for.
std::optional<std::uint8_t> byte_of_char(std::uint32_t code_point);

// Appends the bytes that `spelled` stands for. False (and `out` unchanged) if a character of it is
// not in the alphabet.
bool append_spelled_bytes(std::string_view spelled, std::string& out);

}  // namespace turnstile::engine
