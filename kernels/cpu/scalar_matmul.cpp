// The products of the Scalar level. The loops run over the 16 rows of a panel, four to a vector.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

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

// One block of 32 columns and 16 rows, unsigned weights column after column, and what turns their
// sums into values: value = scale * unsigned weight + minimum.
struct WideBlock {
  float weight[kQuantBlock][kPanelRows];
  float scale[kPanelRows];
  float minimum[kPanelRows];
};

std::size_t block_bytes(WeightType type) { return panel_bytes(type, kPanelRows, kQuantBlock); }

void widen(WeightType type, const std::byte* block, WideBlock& wide) {
  const int zero_point = type == WeightType::Q8_0 ? 128 : 8;
  for (int r = 0; r < kPanelRows; ++r) {
    wide.scale[r] = half_at(block, r);
    wide.minimum[r] = type == WeightType::Q4_1 ? half_at(block, kPanelRows + r)
                                               : static_cast<float>(-zero_point) * wide.scale[r];
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block) +
                      (type == WeightType::Q4_1 ? 4 : 2) * kPanelRows;
  const int stored_quads = (type == WeightType::Q8_0 ? kQuantBlock : kQuantBlock / 2) / 4;
  for (int quad = 0; quad < stored_quads; ++quad) {
    for (int cell = 0; cell < 4 * kPanelRows; ++cell) {
      const int byte = bytes[quad * 4 * kPanelRows + cell];
      const int row = cell / 4;
      const int column = quad * 4 + cell % 4;
      if (type == WeightType::Q8_0) {
        wide.weight[column][row] = static_cast<float>(byte);
      } else {
        wide.weight[column][row] = static_cast<float>(byte & 15);
        wide.weight[column + kQuantBlock / 2][row] = static_cast<float>(byte >> 4);
      }
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

// The block's integer sum is taken in floats: at most 32 * 255 * 127 < 2^24, so it is exact.
void multiply_block(const WideBlock& wide, const std::int8_t* q, float scale, float scaled_sum,
                    float* acc) {
  float activation[kQuantBlock];
  for (int c = 0; c < kQuantBlock; ++c) activation[c] = static_cast<float>(q[c]);
  float sum[kPanelRows];
  sum_columns(wide.weight, kQuantBlock, activation, sum);
  for (int r = 0; r < kPanelRows; ++r) {
    acc[r] = std::fma(sum[r], wide.scale[r] * scale, acc[r]);
    acc[r] = std::fma(wide.minimum[r], scaled_sum, acc[r]);
  }
}

// Up to 32 columns of 16 rows as floats, column after column.
void dequantize_columns(const PanelMatrix& w, const std::byte* panel, int first_column,
                        int columns, float (*weight)[kPanelRows]) {
  switch (w.type) {
    case WeightType::F32:
      std::memcpy(weight, panel + static_cast<std::size_t>(first_column) * 64,
                  static_cast<std::size_t>(columns) * 64);
      return;
    case WeightType::F16:
      for (int c = 0; c < columns; ++c) {
        for (int r = 0; r < kPanelRows; ++r) {
          weight[c][r] = half_at(panel, (first_column + c) * kPanelRows + r);
        }
      }
      return;
    case WeightType::Q8_0:
    case WeightType::Q4_0:
    case WeightType::Q4_1: break;
  }
  WideBlock wide;
  widen(w.type, panel + static_cast<std::size_t>(first_column / kQuantBlock) * block_bytes(w.type),
        wide);
  // The zero point leaves before the product, as in the definition of the formats: rounding
  // d*u - d*8 would differ from d*(u - 8).
  const float zero_point =
      w.type == WeightType::Q8_0 ? 128.0F : w.type == WeightType::Q4_0 ? 8.0F : 0.0F;
  for (int r = 0; r < kPanelRows && w.type != WeightType::Q4_1; ++r) wide.minimum[r] = 0.0F;
  for (int c = 0; c < columns; ++c) {
    for (int r = 0; r < kPanelRows; ++r) {
      weight[c][r] = (wide.weight[c][r] - zero_point) * wide.scale[r] + wide.minimum[r];
    }
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
  if (w.type == WeightType::F32 || w.type == WeightType::F16) {
    matmul_float32(w, x, panel_begin, panel_end, out, out_stride, mode);
    return;
  }
  const int blocks = w.cols / kQuantBlock;
  for_each_tile(w, x, panel_begin, panel_end, out, out_stride, mode,
                [&](const std::byte* panel, int first, int count, float (*acc)[kPanelRows]) {
                  WideBlock wide;
                  for (int b = 0; b < blocks; ++b) {
                    widen(w.type, panel + static_cast<std::size_t>(b) * block_bytes(w.type), wide);
                    for (int t = 0; t < count; ++t) {
                      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(first + t) * blocks + b;
                      multiply_block(wide, x.q + at * kQuantBlock, x.scale[at], x.scaled_sum[at],
                                     acc[t]);
                    }
                  }
                });
}

}  // namespace turnstile::kernels::scalar
