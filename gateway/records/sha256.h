// sha256.h: SHA-256 of a few hundred bytes, many times a second.
//
// Keeps OpenSSL's fetched algorithm and context, which cost more than hashing a record when made
// each time. Thread: one object for one thread.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace turnstile::gateway {

using Sha256Digest = std::array<unsigned char, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256Digest digest(std::string_view text);

 private:
  void* algorithm_;
  void* context_;
};

std::string hex_text(const Sha256Digest& digest);  // lower case
void append_hex(std::string& out, const Sha256Digest& digest);

}  // namespace turnstile::gateway
