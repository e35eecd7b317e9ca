#include "engine/rng.h"

namespace turnstile::engine {

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD251'1F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E'8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E37'79B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67'AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double uniform_draw(std::uint64_t seed, std::uint32_t choice, std::uint32_t position) {
  const PhiloxCounter bits = philox4x32(
      {position, choice, 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t mantissa = (std::uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return static_cast<double>(mantissa) * 0x1p-53;
}

}  // namespace turnstile::engine
