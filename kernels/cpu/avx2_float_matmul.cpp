// Products with F32, F16 and BF16 weights for AVX2, and through it for AVX-VNNI.
//
//   panel: column after column, 16 outputs each     tile: up to 6 rows of activations
//
//   column c   | r0 .. r7 | r8 .. r15 |      row t   .. x[t][c] ..  one value for all 16 outputs
//                   |           |
//   sum[t]     +=  w * x       w * x         one fused multiply-add a column, from column 0 on
//
// Reference: products in double; edges of rows, outputs and columns:
// tests/kernels/tile_edges_test.cpp.
#include "kernels/cpu/avx2_float_matmul.h"

#include <immintrin.h>

#include <cstdint>

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kTileTokens = 6;  // 2 * 6 sums, 2 weights, 1 activation: 15 registers

struct HalfColumns {
  static constexpr std::ptrdiff_t kBytes = 2 * kPanelRows;
  static __m256 load(const std::uint8_t* column, int half) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(column) + half));
  }
};

// The upper halves of floats.
struct BfloatColumns {
  static constexpr std::ptrdiff_t kBytes = 2 * kPanelRows;
  static __m256 load(const std::uint8_t* column, int half) {
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(column) + half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16));
  }
};

struct FloatColumns {
  static constexpr std::ptrdiff_t kBytes = 4 * kPanelRows;
  static __m256 load(const std::uint8_t* column, int half) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(column) + 8 * half);
  }
};

template <typename Columns, int Tokens>
void tile(const std::uint8_t* panel, const float* x, std::ptrdiff_t cols, int lanes, float* out,
          std::size_t out_stride, OutputMode mode) {
  __m256 sum[Tokens][2];
  for (int t = 0; t < Tokens; ++t) sum[t][0] = sum[t][1] = _mm256_setzero_ps();
  for (std::ptrdiff_t c = 0; c < cols; ++c, panel += Columns::kBytes) {
    const __m256 first = Columns::load(panel, 0);
    const __m256 second = Columns::load(panel, 1);
#pragma GCC unroll 6
    for (int t = 0; t < Tokens; ++t) {
      const __m256 activation = _mm256_set1_ps(x[t * cols + c]);
      sum[t][0] = _mm256_fmadd_ps(first, activation, sum[t][0]);
      sum[t][1] = _mm256_fmadd_ps(second, activation, sum[t][1]);
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    float* row = out + static_cast<std::size_t>(t) * out_stride;
    alignas(32) float value[kPanelRows];
    _mm256_store_ps(value, sum[t][0]);
    _mm256_store_ps(value + 8, sum[t][1]);
    for (int r = 0; r < lanes; ++r) row[r] = mode == OutputMode::Add ? row[r] + value[r] : value[r];
  }
}

template <typename Columns>
void panels(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  const int tiles = (x.rows + kTileTokens - 1) / kTileTokens;
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const std::uint8_t* from = bytes + panel * Columns::kBytes * w.cols;
    const int first_row = panel * kPanelRows;
    const int lanes = w.rows - first_row < kPanelRows ? w.rows - first_row : kPanelRows;
    for (int i = 0, t = 0; i < tiles; ++i) {
      const int tokens = (x.rows - t) / (tiles - i);
      const float* rows = x.f32 + static_cast<std::ptrdiff_t>(t) * x.cols;
      float* to = out + static_cast<std::size_t>(t) * out_stride + first_row;
      switch (tokens) {
        case 1: tile<Columns, 1>(from, rows, x.cols, lanes, to, out_stride, mode); break;
        case 2: tile<Columns, 2>(from, rows, x.cols, lanes, to, out_stride, mode); break;
        case 3: tile<Columns, 3>(from, rows, x.cols, lanes, to, out_stride, mode); break;
        case 4: tile<Columns, 4>(from, rows, x.cols, lanes, to, out_stride, mode); break;
        case 5: tile<Columns, 5>(from, rows, x.cols, lanes, to, out_stride, mode); break;
        default: tile<Columns, 6>(from, rows, x.cols, lanes, to, out_stride, mode); break;
      }
      t += tokens;
    }
  }
}

}  // namespace

void float_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                  float* out, std::size_t out_stride, OutputMode mode) {
  if (w.type == WeightType::F16) {
    panels<HalfColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
  } else if (w.type == WeightType::BF16) {
    panels<BfloatColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
  } else {
    panels<FloatColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace turnstile::kernels::avx2
