#include "kernels/half_float.h"

#include <bit>

namespace turnstile::kernels {

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) {  // Infinity, or NaN made quiet as the hardware does.
    const std::uint32_t quiet = magnitude > 0x7c00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13 | quiet);
  }
  // Shifting the magnitude into place leaves the exponent too small by 127 - 15. Multiplying by
  // 2^112 repairs it, and normalises subnormals on the way; the product is exact.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
  }
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // >= 65536
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is subnormal: adding 0.5 aligns the last half bit with the last
    // float bit, and the addition itself rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
  }
  // A carry out of the mantissa moves into the exponent, up to infinity, which is right.
  const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

}  // namespace turnstile::kernels
