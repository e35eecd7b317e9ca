// half_float.h: IEEE 754 binary16 to and from float, in integer arithmetic, for any CPU.
//
// Both directions are exact in the sense of the standard: to_float is lossless (subnormals,
// infinities and NaN included), to_half rounds to nearest, ties to even. The bits equal those of
// the F16C instructions, so the vector kernels may use these or those.
#pragma once

#include <cstdint>

namespace turnstile::kernels {

float half_to_float(std::uint16_t half);
std::uint16_t float_to_half(float value);

// The largest finite half. What the KV cache stores is clamped to it, NaN included: a block is
// reused, and a later owner multiplies slots that it has not written yet by zero.
inline constexpr float kLargestHalf = 65504.0F;

}  // namespace turnstile::kernels
