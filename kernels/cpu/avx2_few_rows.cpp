// Products of one or two rows of activations for AVX2: the weights go from memory through the
// registers once, two panels at a time (an odd last one alone).
//
//   panel g    | block 0 | block 1 | ..       row 0  | 32 columns | 32 columns | ..
//   panel g+1  | block 0 | block 1 | ..       row 1  | 32 columns | 32 columns | ..
//                   |
//                   v  two halves of 8 outputs, quad after quad: sums of 16, then of 32 bits
//   total[panel][row][half] of 8 floats each
//
// avx2_blocks.h says how many quads a 16-bit sum holds. Reference: the Scalar level, bit for bit;
// edges: tests/kernels/tile_edges_test.cpp.
#include <cassert>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_blocks.h"

namespace turnstile::kernels::avx2 {
namespace {

struct Rows {
  const std::int8_t* q;
  const float* scale;
  const std::int32_t* sum;
  const float* scaled_sum;
  std::ptrdiff_t cols;
  std::ptrdiff_t blocks;
};

// 16-bit sums of one half of a block over quads [first, first + F::kQuadsPerSum) of each row. For
// nibbles a vector holds quads j and j + 4; a full byte gives two sums, of its low and its high
// nibble.
template <typename F, int Tokens>
void add_quads(const std::uint8_t* weights, const std::int8_t* q, std::ptrdiff_t cols, int first,
               __m256i (&sum)[Tokens][F::kParts]) {
  constexpr bool kNibbles = F::kVectors == kQuads / 2;
  constexpr int kSteps = kNibbles ? kQuads / 2 : F::kQuadsPerSum;
#pragma GCC unroll 8
  for (int i = 0; i < kSteps; ++i) {
    const int j = first + i;
    const __m256i bytes = bytes_at(weights + 64 * j);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
      const std::int8_t* row = q + t * cols + 4 * j;
      if constexpr (kNibbles) {
        sum[t][0] = add_products(sum[t][0], low_nibbles(bytes), quad_at(row), i == 0);
        sum[t][0] = add_products(sum[t][0], high_nibbles(bytes), quad_at(row + 16), false);
      } else if constexpr (F::kParts == 2) {
        sum[t][0] = add_products(sum[t][0], low_nibbles(bytes), quad_at(row), i == 0);
        sum[t][1] = add_products(sum[t][1], high_nibbles(bytes), quad_at(row), i == 0);
      } else {
        sum[t][0] = add_products(sum[t][0], bytes, quad_at(row), i == 0);
      }
    }
  }
}

// The exact integer sums of one half of a block.
template <typename F, int Tokens>
void block_sums(Block<F> block, int half, const std::int8_t* q, std::ptrdiff_t cols,
                __m256i (&wide)[Tokens]) {
  constexpr int kSums = kQuads / F::kQuadsPerSum;
#pragma GCC unroll 4
  for (int s = 0; s < kSums; ++s) {
    __m256i narrow[Tokens][F::kParts];
    add_quads<F, Tokens>(block.weights() + 32 * half, q, cols, s * F::kQuadsPerSum, narrow);
    __m256i factors = _mm256_set1_epi16(1);
    if constexpr (F::kFactors) factors = factors_of(block, s / (kSums / 2), half);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
      wide[t] = widen(wide[t], narrow[t][0], factors, s == 0);
      if constexpr (F::kParts == 2) {
        wide[t] = widen(wide[t], narrow[t][1], _mm256_set1_epi16(16), false);
      }
    }
  }
  if constexpr (F::kFactors) {
    const __m256i zero = zero_factors_of(block, half);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
      wide[t] = widen(wide[t], zero, _mm256_set1_epi32(half_sums(q + t * cols)), false);
    }
  }
}

// `Panels` panels times `Tokens` rows; acc[p][t] receives 16 outputs.
template <typename F, int Panels, int Tokens>
void direct_tile(const std::uint8_t* panels, std::ptrdiff_t panel_bytes_each, const Rows& x,
                 float (*acc)[Tokens][kPanelRows]) {
  __m256 total[Panels][Tokens][kHalves];
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Tokens; ++t) {
      for (int h = 0; h < kHalves; ++h) total[p][t][h] = _mm256_setzero_ps();
    }
  }
  for (std::ptrdiff_t b = 0; b < x.blocks; ++b) {
#pragma GCC unroll 4
    for (int p = 0; p < Panels; ++p) {
      const Block<F> block = block_of<F>(panels + p * panel_bytes_each, b);
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        __m256i sums[Tokens];
        block_sums<F, Tokens>(block, h, x.q + b * kQuantBlock, x.cols, sums);
        const __m256 scale = scale_of<F>(block, h);
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
          const std::ptrdiff_t at = t * x.blocks + b;
          if constexpr (F::kZeroPoint != 0 && !F::kFactors) {
            sums[t] = less_zero_point<F>(sums[t], _mm256_set1_epi32(x.sum[at]));
          }
          __m256& sum = total[p][t][h];
          sum = add_block(sum, sums[t], scale, _mm256_set1_ps(x.scale[at]));
          if constexpr (F::kZeroPoint == 0) {
            sum = _mm256_fmadd_ps(minimum_of<F>(block, h), _mm256_set1_ps(x.scaled_sum[at]), sum);
          }
        }
      }
    }
  }
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Tokens; ++t) {
      for (int h = 0; h < kHalves; ++h) _mm256_storeu_ps(acc[p][t] + 8 * h, total[p][t][h]);
    }
  }
}

template <typename F, int Panels, int Tokens>
int direct_panels(const PanelMatrix& w, const ActivationRows& x, int panel, int panel_end,
                  float* out, std::size_t out_stride, OutputMode mode) {
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const std::ptrdiff_t each = panel_stride<F>(blocks);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  const Rows rows{x.q, x.scale, x.sum, x.scaled_sum, x.cols, blocks};
  for (; panel + Panels <= panel_end; panel += Panels) {
    alignas(32) float acc[Panels][Tokens][kPanelRows];
    direct_tile<F, Panels, Tokens>(bytes + panel * each, each, rows, acc);
    for (int p = 0; p < Panels; ++p) {
      const int first = (panel + p) * kPanelRows;
      const int lanes = w.rows - first < kPanelRows ? w.rows - first : kPanelRows;
      for (int t = 0; t < Tokens; ++t) {
        store_lanes(acc[p][t], lanes, mode, out + static_cast<std::size_t>(t) * out_stride + first);
      }
    }
  }
  return panel;
}

template <typename F, int Tokens>
void direct(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  const int next =
      direct_panels<F, 2, Tokens>(w, x, panel_begin, panel_end, out, out_stride, mode);
  direct_panels<F, 1, Tokens>(w, x, next, panel_end, out, out_stride, mode);
}

template <typename F>
void one_or_two(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                float* out, std::size_t out_stride, OutputMode mode) {
  if (x.rows == 1) return direct<F, 1>(w, x, panel_begin, panel_end, out, out_stride, mode);
  direct<F, 2>(w, x, panel_begin, panel_end, out, out_stride, mode);
}

}  // namespace

void few_rows_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                     float* out, std::size_t out_stride, OutputMode mode) {
  assert((x.rows == 1 || x.rows == 2) && "more rows share an expanded panel");
  switch (w.type) {
    case WeightType::Q8_0:
      return one_or_two<Q8_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_0:
      return one_or_two<Q4_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_1:
      return one_or_two<Q4_1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_0:
      return one_or_two<Q5_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_1:
      return one_or_two<Q5_1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_K:
      return one_or_two<Q4_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_K:
      return one_or_two<Q5_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q6_K:
      return one_or_two<Q6_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16: assert(false && "float weights have their own products");
  }
}

}  // namespace turnstile::kernels::avx2
