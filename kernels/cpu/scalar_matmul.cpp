// The products of the Scalar level: what every other level computes, in plain loops.
//
//   one block of a panel (panel.h)          up to 32 rows of activations
//     | heads | u8 or nibbles |               row 0   | 32 columns |
//                 | widen()                   ..
//                 v                           row 31  | 32 columns |
//     weight (32 columns, 16 outputs)     x       |
//     scale, minimum (16 outputs)                 +-->  acc (32 rows, 16 outputs)
//
// The loops run over the 16 outputs of a panel, four to a vector. The orders of reduction are those
// of kernel_table.h. Reference: hand values and products in double, tests/kernels/matmul_test.cpp,
// and bf16_test.cpp for Numerics::Bf16.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cpu/scalar.h"
#include "kernels/half_float.h"

namespace turnstile::kernels::scalar {
namespace {

constexpr int kTokenTile = 32;  // rows of activations that share one widened weight block

float half_at(const std::byte* halves, int index) {
  std::uint16_t half = 0;
  std::memcpy(&half, halves + 2 * index, sizeof half);
  return half_to_float(half);
}

float bfloat_at(const std::byte* values, int index) {
  std::uint16_t bf16 = 0;
  std::memcpy(&bf16, values + 2 * index, sizeof bf16);
  return bf16_to_float(bf16);
}

// One block of 32 columns and 16 rows, weights less their zero point column after column, and what
// turns their sums into values: value = scale * weight + minimum, without the latter where there is
// a zero point. Q6_K has also one integer factor for each half of the columns.
struct WideBlock {
  float weight[kQuantBlock][kPanelRows];
  float scale[kPanelRows];
  float minimum[kPanelRows];
  float factor[2][kPanelRows];
};

int zero_point_of(WeightType type) {
  switch (type) {
    case WeightType::Q8_0: return 128;
    case WeightType::Q6_K: return 32;
    case WeightType::Q5_0: return 16;
    case WeightType::Q4_0: return 8;
    default: return 0;
  }
}

// Heads of a block; `super` is the head of its 256 columns for the K types.
void widen_heads(WeightType type, const std::byte* super, const std::byte* block, int row,
                 WideBlock& wide) {
  const auto byte = [&](int at) { return std::to_integer<std::uint8_t>(block[at]); };
  switch (type) {
    case WeightType::Q4_1:
    case WeightType::Q5_1:
      wide.scale[row] = half_at(block, row);
      wide.minimum[row] = half_at(block, kPanelRows + row);
      return;
    case WeightType::Q4_K:
    case WeightType::Q5_K:
      wide.scale[row] = half_at(super, row) * static_cast<float>(byte(row));
      wide.minimum[row] =
          -(half_at(super, kPanelRows + row) * static_cast<float>(byte(kPanelRows + row)));
      return;
    case WeightType::Q6_K:
      wide.scale[row] = half_at(super, row);
      for (int h = 0; h < 2; ++h) {
        wide.factor[h][row] =
            static_cast<float>(static_cast<std::int8_t>(byte(h * kPanelRows + row)));
      }
      return;
    default:
      wide.scale[row] = half_at(block, row);
  }
}

void widen(WeightType type, const std::byte* panel, int block_index, WideBlock& wide) {
  const PanelFormat format = panel_format(type);
  const std::byte* block = panel + format.block_offset(block_index);
  const std::byte* super = panel + format.super_offset(block_index);
  for (int r = 0; r < kPanelRows; ++r) widen_heads(type, super, block, r, wide);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block) + format.head_bytes;
  const int subtract = zero_point_of(type);
  for (int at = 0; at < format.weight_bytes; ++at) {
    const int byte = bytes[at];
    const int row = at % (4 * kPanelRows) / 4;
    const int column = at / (4 * kPanelRows) * 4 + at % 4;
    if (format.weight_bytes == kPanelRows * kQuantBlock) {
      wide.weight[column][row] = static_cast<float>(byte - subtract);
    } else {
      wide.weight[column][row] = static_cast<float>((byte & 15) - subtract);
      wide.weight[column + kQuantBlock / 2][row] = static_cast<float>((byte >> 4) - subtract);
    }
  }
}

// Four rows; the compilers map it to one register of any CPU, plain loops ended up in memory.
using Lanes = float __attribute__((vector_size(16)));
constexpr int kLanesPerPanel = kPanelRows / 4;

// sum[r] = sum over c of weight[c][r] * x[c], column after column.
void sum_columns(const float (*weight)[kPanelRows], int columns, const float* x, float* sum) {
  Lanes total[kLanesPerPanel] = {};
  for (int c = 0; c < columns; ++c) {
    for (int i = 0; i < kLanesPerPanel; ++i) {
      Lanes column;
      std::memcpy(&column, &weight[c][4 * i], sizeof column);
      total[i] += column * x[c];
    }
  }
  std::memcpy(sum, total, sizeof total);
}

// The block's integer sum is taken in floats: at most 32 * 255 * 127 < 2^24, so it is exact; and
// 2 * (16 * 32 * 127) * 128 < 2^24 for the two scaled halves of Q6_K.
void multiply_block(WeightType type, const WideBlock& wide, const std::int8_t* q, float scale,
                    float scaled_sum, float* acc) {
  float activation[kQuantBlock];
  for (int c = 0; c < kQuantBlock; ++c) activation[c] = static_cast<float>(q[c]);
  float sum[kPanelRows];
  if (type == WeightType::Q6_K) {
    constexpr int kHalf = kQuantBlock / 2;
    float last[kPanelRows];
    sum_columns(wide.weight, kHalf, activation, sum);
    sum_columns(wide.weight + kHalf, kHalf, activation + kHalf, last);
    for (int r = 0; r < kPanelRows; ++r) {
      const float both = sum[r] * wide.factor[0][r] + last[r] * wide.factor[1][r];
      acc[r] = std::fma(both, wide.scale[r] * scale, acc[r]);
    }
    return;
  }
  sum_columns(wide.weight, kQuantBlock, activation, sum);
  for (int r = 0; r < kPanelRows; ++r) {
    acc[r] = std::fma(sum[r], wide.scale[r] * scale, acc[r]);
    if (zero_point_of(type) == 0) acc[r] = std::fma(wide.minimum[r], scaled_sum, acc[r]);
  }
}

// Up to 32 columns of 16 rows as floats, column after column.
void dequantize_columns(const PanelMatrix& w, const std::byte* panel, int first_column,
                        int columns, float (*weight)[kPanelRows]) {
  if (w.type == WeightType::F32) {
    std::memcpy(weight, panel + static_cast<std::size_t>(first_column) * 64,
                static_cast<std::size_t>(columns) * 64);
    return;
  }
  if (w.type == WeightType::F16 || w.type == WeightType::BF16) {
    for (int c = 0; c < columns; ++c) {
      for (int r = 0; r < kPanelRows; ++r) {
        const int at = (first_column + c) * kPanelRows + r;
        weight[c][r] = w.type == WeightType::F16 ? half_at(panel, at) : bfloat_at(panel, at);
      }
    }
    return;
  }
  // By the definition of the formats, where the zero point leaves before the product: rounding
  // d*u - d*8 would differ from d*(u - 8).
  const PanelMatrix one{w.type, kPanelRows, w.cols, panel};
  for (int r = 0; r < kPanelRows; ++r) {
    float values[kQuantBlock];
    quant_block_values(w.type, panel_block(one, r, first_column / kQuantBlock), values);
    for (int c = 0; c < columns; ++c) weight[c][r] = values[c];
  }
}

// acc += 32 columns of bf16 values: even columns and odd ones from zero, both added at the end. A
// product of two bf16 is exact in a float, so multiplying and adding is a fused step.
void add_pairs(const float (*weight)[kPanelRows], const float* x, float* acc) {
  Lanes even[kLanesPerPanel] = {};
  Lanes odd[kLanesPerPanel] = {};
  for (int c = 0; c < kQuantBlock; c += 2) {
    for (int i = 0; i < kLanesPerPanel; ++i) {
      Lanes column[2];
      std::memcpy(&column[0], &weight[c][4 * i], sizeof column[0]);
      std::memcpy(&column[1], &weight[c + 1][4 * i], sizeof column[1]);
      even[i] += column[0] * x[c];
      odd[i] += column[1] * x[c + 1];
    }
  }
  for (int i = 0; i < kLanesPerPanel; ++i) {
    Lanes total;
    std::memcpy(&total, acc + 4 * i, sizeof total);
    total += even[i] + odd[i];
    std::memcpy(acc + 4 * i, &total, sizeof total);
  }
}

void store_lanes(const float* acc, int lanes, OutputMode mode, float* out) {
  for (int r = 0; r < lanes; ++r) out[r] = mode == OutputMode::Add ? out[r] + acc[r] : acc[r];
}

// Calls product(panel bytes, first row, row count, acc) for each panel and tile of activation
// rows; acc starts at zero and is stored when product returns.
template <typename Product>
void for_each_tile(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                   float* out, std::size_t out_stride, OutputMode mode, Product product) {
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  const std::size_t one_panel = panel_bytes(w.type, kPanelRows, w.cols);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const int lanes = std::min(kPanelRows, w.rows - panel * kPanelRows);
    for (int first = 0; first < x.rows; first += kTokenTile) {
      const int count = std::min(kTokenTile, x.rows - first);
      float acc[kTokenTile][kPanelRows] = {};
      product(w.data + static_cast<std::size_t>(panel) * one_panel, first, count, acc);
      for (int t = 0; t < count; ++t) {
        store_lanes(acc[t], lanes, mode,
                    out + static_cast<std::size_t>(first + t) * out_stride +
                        static_cast<std::size_t>(panel) * kPanelRows);
      }
    }
  }
}

}  // namespace

void matmul_float32(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                    float* out, std::size_t out_stride, OutputMode mode) {
  for_each_tile(w, x, panel_begin, panel_end, out, out_stride, mode,
                [&](const std::byte* panel, int first, int count, float (*acc)[kPanelRows]) {
                  float weight[kQuantBlock][kPanelRows];
                  for (int c = 0; c < w.cols; c += kQuantBlock) {
                    const int columns = std::min(kQuantBlock, w.cols - c);
                    dequantize_columns(w, panel, c, columns, weight);
                    for (int t = 0; t < count; ++t) {
                      float sum[kPanelRows];
                      sum_columns(weight, columns,
                                  x.f32 + static_cast<std::ptrdiff_t>(first + t) * x.cols + c, sum);
                      for (int r = 0; r < kPanelRows; ++r) acc[t][r] += sum[r];
                    }
                  }
                });
}

void matmul_int8(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode) {
  if (!is_quantised(w.type)) {
    matmul_float32(w, x, panel_begin, panel_end, out, out_stride, mode);
    return;
  }
  const int blocks = w.cols / kQuantBlock;
  for_each_tile(w, x, panel_begin, panel_end, out, out_stride, mode,
                [&](const std::byte* panel, int first, int count, float (*acc)[kPanelRows]) {
                  WideBlock wide;
                  for (int b = 0; b < blocks; ++b) {
                    widen(w.type, panel, b, wide);
                    for (int t = 0; t < count; ++t) {
                      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(first + t) * blocks + b;
                      multiply_block(w.type, wide, x.q + at * kQuantBlock, x.scale[at],
                                     x.scaled_sum[at], acc[t]);
                    }
                  }
                });
}

void quantize_bf16(const ActivationRows& x, int row_begin, int row_end) {
  const std::ptrdiff_t stride = bf16_stride(x.cols);
  for (std::ptrdiff_t row = row_begin; row < row_end; ++row) {
    for (std::ptrdiff_t c = 0; c < stride; ++c) {
      x.bf16[row * stride + c] = c < x.cols ? float_to_bf16(x.f32[row * x.cols + c]) : 0;
    }
  }
}

void matmul_bf16(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode) {
  const std::ptrdiff_t stride = bf16_stride(x.cols);
  for_each_tile(w, x, panel_begin, panel_end, out, out_stride, mode,
                [&](const std::byte* panel, int first, int count, float (*acc)[kPanelRows]) {
                  for (int c = 0; c < w.cols; c += kQuantBlock) {
                    float weight[kQuantBlock][kPanelRows] = {};
                    dequantize_columns(w, panel, c, std::min(kQuantBlock, w.cols - c), weight);
                    for (auto& column : weight) {
                      for (float& value : column) value = bf16_to_float(float_to_bf16(value));
                    }
                    for (int t = 0; t < count; ++t) {
                      const std::uint16_t* row = x.bf16 + (first + t) * stride + c;
                      float values[kQuantBlock];
                      for (int i = 0; i < kQuantBlock; ++i) values[i] = bf16_to_float(row[i]);
                      add_pairs(weight, values, acc[t]);
                    }
                  }
                });
}

}  // namespace turnstile::kernels::scalar
