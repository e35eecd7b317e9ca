#include "engine/tokenizer/byte_alphabet.h"

#include <array>

#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

constexpr std::uint32_t kFirstExtra = 0x100;
constexpr std::uint32_t kExtraCount = 68;

constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<std::uint8_t, kExtraCount> make_extra() {
  std::array<std::uint8_t, kExtraCount> extra{};
  std::size_t count = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) extra[count++] = static_cast<std::uint8_t>(byte);
  }
  return extra;
}

constexpr auto kExtra = make_extra();

}  // namespace

std::optional<std::uint8_t> byte_of_char(std::uint32_t code_point) {
  if (code_point < 256) {
    if (!stands_for_itself(code_point)) return std::nullopt;
    return static_cast<std::uint8_t>(code_point);
  }
  if (code_point < kFirstExtra + kExtraCount) return kExtra[code_point - kFirstExtra];
  return std::nullopt;
}

bool append_spelled_bytes(std::string_view spelled, std::string& out) {
  const std::size_t size_before = out.size();
  for (std::size_t at = 0; at < spelled.size();) {
    const DecodedChar decoded = decode_utf8(spelled, at);
    const auto byte = byte_of_char(decoded.code_point);
    if (!byte) {
      out.resize(size_before);
      return false;
    }
    out.push_back(static_cast<char>(*byte));
    at += decoded.byte_count;
  }
  return true;
}

}  // namespace turnstile::engine
