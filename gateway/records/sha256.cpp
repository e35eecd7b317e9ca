#include "gateway/records/sha256.h"

#include <openssl/evp.h>

#include <cassert>

namespace turnstile::gateway {

Sha256::Sha256() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
  assert(algorithm_ != nullptr && context_ != nullptr && "OpenSSL 3 has SHA-256");
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
  EVP_MD_free(static_cast<EVP_MD*>(algorithm_));
}

Sha256Digest Sha256::digest(std::string_view text) {
  auto* context = static_cast<EVP_MD_CTX*>(context_);
  Sha256Digest digest{};
  const bool ok =
      EVP_DigestInit_ex2(context, static_cast<EVP_MD*>(algorithm_), nullptr) == 1 &&
      EVP_DigestUpdate(context, text.data(), text.size()) == 1 &&
      EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
  assert(ok && "SHA-256 takes any text");
  static_cast<void>(ok);
  return digest;
}

void append_hex(std::string& out, const Sha256Digest& digest) {
  for (const unsigned char byte : digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
}

std::string hex_text(const Sha256Digest& digest) {
  std::string text;
  text.reserve(2 * digest.size());
  append_hex(text, digest);
  return text;
}

}  // namespace turnstile::gateway
