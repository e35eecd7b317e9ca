// random_stream.h: a small deterministic random generator, the same on every machine and library.
//
// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). The
// standard library's distributions differ between implementations, and a load that differs from
// machine to machine cannot be compared.
#pragma once

#include <cstdint>

namespace turnstile::load {

class RandomStream {
 public:
  // Streams of different (seed, number) are independent; the same pair gives the same values.
  RandomStream(std::uint64_t seed, std::uint64_t number) : state_(mix(seed) ^ mix(~number)) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    return mix(state_);
  }

  // Uniform in (0, 1]: safe for a logarithm.
  double next_unit() { return (static_cast<double>(next() >> 11) + 1.0) * 0x1p-53; }

  // Uniform in [low, high). The bias of the remainder is below 2^-40 for vocabularies.
  std::uint32_t next_in(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(next() % (high - low));
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace turnstile::load
