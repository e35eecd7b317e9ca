#include "gateway/cache_salt.h"

#include <array>
#include <cassert>
#include <cstdint>

#include <openssl/evp.h>

namespace turnstile::gateway {

engine::CacheSalt cache_salt(std::string_view team,
                             const std::optional<std::string>& client_salt) {
  // Names of teams hold no zero byte; the second one tells an empty salt from none.
  std::string text(team);
  text += '\0';
  if (client_salt) {
    text += '\0';
    text += *client_salt;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned digest_bytes = 0;
  const int ok = EVP_Digest(text.data(), text.size(), digest.data(), &digest_bytes, EVP_sha256(),
                            nullptr);
  assert(ok == 1 && digest_bytes == 32 && "SHA-256 of bytes in memory cannot fail");
  engine::CacheSalt salt;
  for (int i = 0; i < 8; ++i) {
    salt.high = salt.high << 8 | digest[static_cast<std::size_t>(i)];
    salt.low = salt.low << 8 | digest[static_cast<std::size_t>(i) + 8];
  }
  return salt;
}

}  // namespace turnstile::gateway
