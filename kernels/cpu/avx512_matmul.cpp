// Products for AVX-512 VNNI: those of quantised weights in vnni_matmul.inc, on a tile of two panels
// and up to six activation rows; those of F32, F16 and BF16 weights here:
//
//   column c of a panel   | r0 .. r15 |    a tile is 8 rows of activations, what is left of them
//   row t                 x[t][c]          are tiles of one row
//   sum[t]                += w * x         one fused multiply-add a column, from column 0 on
//
// Reference: products in double; edges: tests/kernels/tile_edges_test.cpp.
#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/avx512.h"

namespace turnstile::kernels::avx512 {
namespace {

#include "kernels/cpu/avx512_simd.inc"
#include "kernels/cpu/vnni_blocks.inc"
#include "kernels/cpu/vnni_matmul.inc"

constexpr int kFloatTokens = 8;

struct HalfColumns {
  static constexpr std::ptrdiff_t kBytes = 2 * kPanelRows;
  static __m512 load(const std::uint8_t* column) { return Simd::halves_at(column); }
};

// The upper halves of floats.
struct BfloatColumns {
  static constexpr std::ptrdiff_t kBytes = 2 * kPanelRows;
  static __m512 load(const std::uint8_t* column) {
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(column));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  }
};

struct FloatColumns {
  static constexpr std::ptrdiff_t kBytes = 4 * kPanelRows;
  static __m512 load(const std::uint8_t* column) {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(column));
  }
};

template <typename Columns, int Tokens>
void float_tile(const std::uint8_t* panel, const float* x, std::ptrdiff_t cols, int lanes,
                float* out, std::size_t out_stride, OutputMode mode) {
  __m512 sum[Tokens];
  for (int t = 0; t < Tokens; ++t) sum[t] = _mm512_setzero_ps();
  for (std::ptrdiff_t c = 0; c < cols; ++c, panel += Columns::kBytes) {
    const __m512 weights = Columns::load(panel);
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
      sum[t] = _mm512_fmadd_ps(weights, _mm512_set1_ps(x[t * cols + c]), sum[t]);
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    store_lanes(sum[t], lanes, mode, out + static_cast<std::size_t>(t) * out_stride);
  }
}

template <typename Columns>
void float_panels(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                  float* out, std::size_t out_stride, OutputMode mode) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const std::uint8_t* from = bytes + panel * Columns::kBytes * w.cols;
    for (int t = 0; t < x.rows;) {
      const float* rows = x.f32 + static_cast<std::ptrdiff_t>(t) * x.cols;
      float* to = out + static_cast<std::size_t>(t) * out_stride + panel * kPanelRows;
      const int lanes = lanes_of(w, panel);
      if (x.rows - t >= kFloatTokens) {
        float_tile<Columns, kFloatTokens>(from, rows, x.cols, lanes, to, out_stride, mode);
        t += kFloatTokens;
      } else {
        float_tile<Columns, 1>(from, rows, x.cols, lanes, to, out_stride, mode);
        t += 1;
      }
    }
  }
}

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  switch (w.type) {
    case WeightType::F32:
      return float_panels<FloatColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::F16:
      return float_panels<HalfColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::BF16:
      return float_panels<BfloatColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
    default: return quantised_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace turnstile::kernels::avx512
