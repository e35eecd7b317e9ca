// key_secret.h: the text of an API key, and its keyed hash.
//
//   gw_ 8 characters _ 32 characters 6 characters        digits are 0-9 A-Z a-z (base 62)
//       public id      random        CRC-32 of all before them, as a base-62 number
//
// The check characters let a scanner and a server tell a key from a typo without knowing any key.
// The random part alone holds 190 bits.
//
// Thread: any; KeyHasher keeps a context, so one object is for one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ids.h"

namespace turnstile::gateway {

inline constexpr std::size_t kPublicIdChars = 8;
inline constexpr std::size_t kSecretChars = 3 + kPublicIdChars + 1 + 32 + 6;

using KeyHash = std::array<unsigned char, 32>;

// `count` characters of base 62, each equally likely.
std::string random_base62(RandomSource& random, std::size_t count);

// Of digits alone.
bool is_base62(std::string_view text);

std::string make_secret(RandomSource& random);

// The public id, when form and check characters are right.
std::optional<std::string_view> public_id_of(std::string_view secret);

// HMAC-SHA-256(pepper, text).
class KeyHasher {
 public:
  explicit KeyHasher(std::string_view pepper);
  ~KeyHasher();
  KeyHasher(const KeyHasher&) = delete;
  KeyHasher& operator=(const KeyHasher&) = delete;

  KeyHash hash(std::string_view text);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

bool equal_in_constant_time(const KeyHash& a, const KeyHash& b);
// Texts of equal length.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// "hmac-sha256:" + 64 lower-case hexadecimal digits, as keys.toml has it.
std::string hash_text(const KeyHash& hash);
std::optional<KeyHash> parse_hash(std::string_view text);

}  // namespace turnstile::gateway
