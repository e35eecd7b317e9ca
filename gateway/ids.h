// ids.h: request ids and the source of random bytes.
//
// A request id is 128 bits as 32 hexadecimal digits, made here and never by a client:
//
//   48 bit milliseconds of wall time | 16 bit counter | 64 random bits
//
// The order of the texts is the order of creation as long as wall time does not go back; when it
// does, the last milliseconds are kept and the counter goes on. Ids are unique, not secret.
//
// RandomSource has two implementations: SystemRandom (OpenSSL) and SeededRandom (simulation, where
// a run must repeat).
//
// Thread: RequestIds is for one thread; SystemRandom for any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gateway/clock.h"

namespace turnstile::gateway {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual void fill(std::span<std::byte> out) = 0;
};

class SystemRandom final : public RandomSource {
 public:
  void fill(std::span<std::byte> out) override;  // asserts when the system has no entropy
};

// SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  void fill(std::span<std::byte> out) override;
  std::uint64_t next();

 private:
  std::uint64_t state_;
};

class RequestIds {
 public:
  explicit RequestIds(RandomSource& random) : random_(random) {}

  std::string next(WallTime now);

 private:
  std::uint64_t random_bits();

  RandomSource& random_;
  std::array<std::uint64_t, 256> pool_{};  // so that most ids need no call of the generator
  std::size_t pool_used_ = pool_.size();
  std::uint64_t last_ms_ = 0;
  std::uint16_t counter_ = 0;
};

// A client's X-Request-Id is kept in the records when it is [A-Za-z0-9._-]{1,64}.
bool is_acceptable_client_id(std::string_view text);

}  // namespace turnstile::gateway
