#include "gateway/keys/key_secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <cassert>
#include <span>

namespace turnstile::gateway {
namespace {

constexpr std::string_view kPrefix = "gw_";
constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kCheckChars = 6;
constexpr std::string_view kHashPrefix = "hmac-sha256:";

// CRC-32 of ISO 3309 (polynomial 0xEDB88320 reflected). A few dozen bytes, so bit by bit.
std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

std::string check_characters(std::string_view text) {
  std::uint32_t crc = crc32(text);
  std::string check(kCheckChars, '0');
  for (std::size_t i = kCheckChars; i-- > 0;) {
    check[i] = kDigits[crc % kDigits.size()];
    crc /= static_cast<std::uint32_t>(kDigits.size());
  }
  return check;
}

}  // namespace

bool is_base62(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

std::string random_base62(RandomSource& random, std::size_t count) {
  // Bytes from 248 up are thrown away: 248 is the largest multiple of 62 in a byte.
  constexpr unsigned kFair = 248;
  std::string text;
  std::array<std::byte, 64> bytes;
  while (text.size() < count) {
    random.fill(bytes);
    for (const std::byte byte : bytes) {
      const auto value = std::to_integer<unsigned>(byte);
      if (value < kFair && text.size() < count) text += kDigits[value % kDigits.size()];
    }
  }
  return text;
}

std::string make_secret(RandomSource& random) {
  std::string secret(kPrefix);
  secret += random_base62(random, kPublicIdChars);
  secret += '_';
  secret += random_base62(random, 32);
  secret += check_characters(secret);
  return secret;
}

std::optional<std::string_view> public_id_of(std::string_view secret) {
  if (secret.size() != kSecretChars || !secret.starts_with(kPrefix)) return std::nullopt;
  const std::string_view public_id = secret.substr(kPrefix.size(), kPublicIdChars);
  const std::size_t bar = kPrefix.size() + kPublicIdChars;
  if (secret[bar] != '_' || !is_base62(public_id) || !is_base62(secret.substr(bar + 1))) {
    return std::nullopt;
  }
  const std::size_t body = kSecretChars - kCheckChars;
  if (secret.substr(body) != check_characters(secret.substr(0, body))) return std::nullopt;
  return public_id;
}

struct KeyHasher::Context {
  EVP_MAC* mac = nullptr;
  EVP_MAC_CTX* context = nullptr;
};

KeyHasher::KeyHasher(std::string_view pepper) : context_(std::make_unique<Context>()) {
  context_->mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  assert(context_->mac != nullptr && "OpenSSL 3 has HMAC");
  context_->context = EVP_MAC_CTX_new(context_->mac);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  const auto* key = reinterpret_cast<const unsigned char*>(pepper.data());
  const int ok = EVP_MAC_init(context_->context, key, pepper.size(), params);
  assert(ok == 1 && "HMAC-SHA-256 takes any key");
  static_cast<void>(ok);
}

KeyHasher::~KeyHasher() {
  EVP_MAC_CTX_free(context_->context);
  EVP_MAC_free(context_->mac);
}

KeyHash KeyHasher::hash(std::string_view text) {
  KeyHash hash{};
  std::size_t size = 0;
  // Without a key the context starts over with the key that it has, which saves deriving the pads.
  const bool ok =
      EVP_MAC_init(context_->context, nullptr, 0, nullptr) == 1 &&
      EVP_MAC_update(context_->context, reinterpret_cast<const unsigned char*>(text.data()),
                     text.size()) == 1 &&
      EVP_MAC_final(context_->context, hash.data(), &size, hash.size()) == 1;
  assert(ok && size == hash.size() && "HMAC-SHA-256 gives 32 bytes");
  static_cast<void>(ok);
  return hash;
}

bool equal_in_constant_time(const KeyHash& a, const KeyHash& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  assert(a.size() == b.size() && "the length is no secret and was compared before");
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string hash_text(const KeyHash& hash) {
  std::string text(kHashPrefix);
  for (const unsigned char byte : hash) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::optional<KeyHash> parse_hash(std::string_view text) {
  KeyHash hash{};
  if (!text.starts_with(kHashPrefix)) return std::nullopt;
  text.remove_prefix(kHashPrefix.size());
  if (text.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t nibble = std::string_view("0123456789abcdef").find(text[i]);
    if (nibble == std::string_view::npos) return std::nullopt;
    hash[i / 2] = static_cast<unsigned char>(hash[i / 2] << 4 | nibble);
  }
  return hash;
}

}  // namespace turnstile::gateway
