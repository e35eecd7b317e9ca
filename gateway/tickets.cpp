#include "gateway/tickets.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>

namespace turnstile::gateway {
namespace {

constexpr std::size_t kDigitCount = 16;
constexpr policy::RequestId kNobodys{0};

std::uint64_t keyed_hash(KeyHasher& hasher, std::uint64_t number) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i));
  }
  const KeyHash digest = hasher.hash({bytes.data(), bytes.size()});
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < 8; ++i) hash = hash << 8 | digest[i];
  return hash;
}

void append_digits(std::string& out, std::uint64_t number) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[number >> shift & 15];
}

}  // namespace

std::string TicketTexts::text(policy::RequestId ticket, RandomSource& random) {
  if (!hasher_) {
    std::array<char, 32> key{};
    random.fill(std::as_writable_bytes(std::span(key)));
    hasher_.emplace(std::string_view(key.data(), key.size()));
  }
  const auto number = static_cast<std::uint64_t>(ticket);
  std::string text;
  text.reserve(2 * kDigitCount);
  append_digits(text, number);
  append_digits(text, keyed_hash(*hasher_, number));
  return text;
}

policy::RequestId TicketTexts::read(std::string_view text) {
  if (!hasher_ || text.size() != 2 * kDigitCount) return kNobodys;
  std::uint64_t number = 0;
  const char* const end = text.data() + kDigitCount;
  const auto [rest, error] = std::from_chars(text.data(), end, number, 16);
  if (error != std::errc{} || rest != end) return kNobodys;
  std::string expected;
  append_digits(expected, keyed_hash(*hasher_, number));
  const bool is_ours = equal_in_constant_time(expected, text.substr(kDigitCount));
  return is_ours ? policy::RequestId{number} : kNobodys;
}

}  // namespace turnstile::gateway
