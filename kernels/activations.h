// activations.h: rows of activations, as floats and as int8 with one scale per 32 values.
//
// Shapes, row-major without gaps: f32 and q (rows, cols); scale, sum, scaled_sum (rows, cols/32).
// For block b of a row: scale = max|x|/127, q = round_to_nearest_even(x * (127/max|x|)) in
// [-127, 127], sum = sum(q), scaled_sum = scale * sum. A block whose largest value is below
// kSmallestScaled (zeros) has scale 0 and q 0. x must be finite: infinity and NaN give bytes
// without a meaning, and not the same at each level. Quantising a row depends on that row alone,
// which is one half of the bitwise identity promise (the other is the order of reduction).
//
// bf16 (rows, bf16_stride(cols)): f32 rounded, zero past the last column (bf16.h).
//
// The quantised parts are used with quantised weights under Numerics::Int8, bf16 with all weights
// under Numerics::Bf16, f32 otherwise. A part that nothing uses may be null.
// Ownership: a view into the model's step workspace (64-byte aligned, rows padded by nothing).
#pragma once

#include <cstdint>

namespace turnstile::kernels {

inline constexpr float kSmallestScaled = 0x1p-100F;  // below it, 127/max|x| could overflow

struct ActivationRows {
  int rows = 0;
  int cols = 0;
  float* f32 = nullptr;
  std::int8_t* q = nullptr;
  float* scale = nullptr;
  std::int32_t* sum = nullptr;
  float* scaled_sum = nullptr;
  std::uint16_t* bf16 = nullptr;
};

}  // namespace turnstile::kernels
