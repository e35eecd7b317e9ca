#include "gateway/tickets.h"

#include <cassert>
#include <charconv>
#include <cstdint>
#include <span>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace turnstile::gateway {
namespace {

constexpr std::size_t kDigitCount = 16;
constexpr policy::RequestId kNobodys{0};

std::uint64_t keyed_hash(std::span<const std::byte> key, std::uint64_t number) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(number >> (8 * i));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned digest_bytes = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(),
                          bytes.size(), digest.data(), &digest_bytes);
  assert(done != nullptr && digest_bytes == 32 && "HMAC of bytes in memory cannot fail");
  (void)done;
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
  if (!key_) random.fill(key_.emplace());
  const auto number = static_cast<std::uint64_t>(ticket);
  std::string text;
  text.reserve(2 * kDigitCount);
  append_digits(text, number);
  append_digits(text, keyed_hash(*key_, number));
  return text;
}

policy::RequestId TicketTexts::read(std::string_view text) const {
  if (!key_ || text.size() != 2 * kDigitCount) return kNobodys;
  std::uint64_t number = 0;
  const char* const end = text.data() + kDigitCount;
  const auto [rest, error] = std::from_chars(text.data(), end, number, 16);
  if (error != std::errc{} || rest != end) return kNobodys;
  std::string expected;
  append_digits(expected, keyed_hash(*key_, number));
  const bool is_ours = CRYPTO_memcmp(expected.data(), end, kDigitCount) == 0;
  return is_ours ? policy::RequestId{number} : kNobodys;
}

}  // namespace turnstile::gateway
