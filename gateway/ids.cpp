#include "gateway/ids.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

namespace turnstile::gateway {
namespace {

void put_hex(char* at, std::uint64_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) {
    at[i] = "0123456789abcdef"[value & 15];
    value >>= 4;
  }
}

}  // namespace

void SystemRandom::fill(std::span<std::byte> out) {
  const int ok = RAND_bytes(reinterpret_cast<unsigned char*>(out.data()),
                            static_cast<int>(out.size()));
  assert(ok == 1 && "the system has random bytes");
  static_cast<void>(ok);
}

std::uint64_t SeededRandom::next() {
  state_ += 0x9E3779B97F4A7C15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

void SeededRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t bits = next();
    const std::size_t count = std::min(out.size(), sizeof bits);
    std::memcpy(out.data(), &bits, count);
    out = out.subspan(count);
  }
}

std::uint64_t RequestIds::random_bits() {
  if (pool_used_ == pool_.size()) {
    random_.fill(std::as_writable_bytes(std::span(pool_)));
    pool_used_ = 0;
  }
  return pool_[pool_used_++];
}

std::string RequestIds::next(WallTime now) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const auto now_ms = static_cast<std::uint64_t>(since_epoch.count());
  if (now_ms > last_ms_) {
    last_ms_ = now_ms;
    counter_ = 0;
  } else if (++counter_ == 0) {
    ++last_ms_;  // 65,536 ids in one millisecond: the next one borrows from the future
  }
  std::string id(32, '0');
  put_hex(&id[0], last_ms_, 12);
  put_hex(&id[12], counter_, 4);
  put_hex(&id[16], random_bits(), 16);
  return id;
}

bool is_acceptable_client_id(std::string_view text) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, is_good);
}

}  // namespace turnstile::gateway
