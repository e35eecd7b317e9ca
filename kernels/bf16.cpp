#include "kernels/bf16.h"

#include <bit>

namespace turnstile::kernels {

static_assert(std::bit_cast<std::int32_t>(kSmallestBf16) == kSmallestBf16Bits);

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  if ((bits & kMagnitude) < std::uint32_t{kSmallestBf16Bits}) return 0;
  // Half a unit less one, and one more where the kept part is odd: ties go to even.
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bf16_to_float(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

std::ptrdiff_t bf16_stride(int cols) {
  constexpr std::ptrdiff_t kTileColumns = 32;
  return (cols + kTileColumns - 1) / kTileColumns * kTileColumns;
}

}  // namespace turnstile::kernels
