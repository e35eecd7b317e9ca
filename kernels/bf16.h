// bf16.h: floats of 16 bits, the upper half of a float, for products under Numerics::Bf16.
//
//   float   s eeeeeeee mmmmmmm mmmmmmmmmmmmmmmm        rounded to nearest, ties to even;
//   bf16    s eeeeeeee mmmmmmm                         |x| < kSmallestBf16 becomes +0
//
// Why small values become zero: a bf16 value of at least 2^-50 is a multiple of 2^-57, so a product
// of two is one of 2^-114, and so is every sum. None is ever denormal, and a CPU that flushes
// denormals, as the tile instructions do, gives the bits of one that does not.
// REQUIRES: |x| < 2^127.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::kernels {

inline constexpr float kSmallestBf16 = 0x1p-50F;
inline constexpr std::int32_t kSmallestBf16Bits = 0x26800000;

std::uint16_t float_to_bf16(float value);
float bf16_to_float(std::uint16_t bf16);

// Values from one row of activations in bf16 to the next: `cols`, rounded up to whole tiles of 32.
std::ptrdiff_t bf16_stride(int cols);

}  // namespace turnstile::kernels
