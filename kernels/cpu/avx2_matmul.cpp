// Products with weights of 4, 5 and 6 bits for AVX2, three rows of activations and more, and the
// choice among the products of this level. avx2_blocks.h says how many byte products a 16-bit sum
// holds; here the weights of a block are bytes, 64 for each column quad (8 rows a register):
//
//   WideBlock:  heads of 16 rows | quad 0: 16 rows x 4 | quad 1 | .. | quad 7
//
// Reference: the Scalar level, bit for bit; edges of rows, outputs and segments:
// tests/kernels/tile_edges_test.cpp; largest sums: matmul_test.cpp.
#include <cassert>
#include <type_traits>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_float_matmul.h"
#include "kernels/cpu/avx2_wide.h"

namespace turnstile::kernels::avx2 {
namespace {

// What turns the sums of a block into outputs, of 16 rows.
template <typename F, bool HasMinima = F::kZeroPoint == 0>
struct WideHeads {
  float scale[kPanelRows];
};
template <typename F>
struct WideHeads<F, true> {
  float scale[kPanelRows];
  float minimum[kPanelRows];
};
template <>
struct WideHeads<Q6_K, false> {
  float scale[kPanelRows];
  std::int16_t factors[2][kHalves][kPanelRows];  // of the first and the last 16 columns
  std::int16_t zero_factors[kHalves][kPanelRows];
};

// Sums of the activations of a block over its first and last 16 columns (half_sums()).
struct HalfSums {
  std::int32_t pair;
};

template <typename F>
struct NarrowSums {
  using Format = F;
  static constexpr int kSums = kQuads / F::kQuadsPerSum;  // of 16 bits, a block
  using PreparedBlock = std::conditional_t<F::kFactors, HalfSums, NothingPrepared>;

  struct alignas(32) WideBlock {
    WideHeads<F> heads;
    std::uint8_t weights[kQuads][64];
  };

  // Quad j of 8 rows, expanded at first use.
  template <bool Expands>
  [[gnu::always_inline]] static inline __m256i quad(const Block<F>& block, WideBlock& wide, int j,
                                                    int half) {
    constexpr bool kNibbles = F::kVectors == kQuads / 2;
    if constexpr (!Expands) return load(wide.weights[j] + 32 * half);
    const __m256i bytes = bytes_at(block.weights() + 64 * (j % F::kVectors) + 32 * half);
    const __m256i wanted =
        !kNibbles ? bytes : j < F::kVectors ? low_nibbles(bytes) : high_nibbles(bytes);
    store(wide.weights[j] + 32 * half, wanted);
    return wanted;
  }

  static void expand_heads(Block<F> block, int half, WideHeads<F>& heads) {
    const __m256 scale = scale_of<F>(block, half);
    _mm256_store_ps(heads.scale + 8 * half, scale);
    if constexpr (F::kFactors) {
      for (int c = 0; c < 2; ++c) store(heads.factors[c][half], factors_of(block, c, half));
      store(heads.zero_factors[half], zero_factors_of(block, half));
    } else if constexpr (F::kZeroPoint == 0) {
      _mm256_store_ps(heads.minimum + 8 * half, minimum_of<F>(block, half));
    }
  }

  static void prepare(const std::int8_t* q, HalfSums& prepared) { prepared.pair = half_sums(q); }

  // What a widening multiplies by.
  static __m256i widening_factors(const WideBlock& wide, int sum, int half) {
    if constexpr (F::kFactors) return load(wide.heads.factors[sum / (kSums / 2)][half]);
    return _mm256_set1_epi16(1);
  }

  // The exact integer sums of one block, but for the zero point.
  template <int Rows, bool Expands>
  [[gnu::always_inline]] static inline void block_sums(const Block<F>& block, WideBlock& wide,
                                                       const RowPointers& q,
                                                       std::ptrdiff_t stride,
                                                       __m256i (&sums)[Rows][kHalves]) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
      // Otherwise the compiler keeps activations of the first sum for the next, in memory.
      if (s > 0) __asm__ volatile("" : : : "memory");
      __m256i narrow[Rows][kHalves];
#pragma GCC unroll 8
      for (int i = 0; i < F::kQuadsPerSum; ++i) {
        const int j = s * F::kQuadsPerSum + i;
        const __m256i first = quad<Expands>(block, wide, j, 0);
        const __m256i second = quad<Expands>(block, wide, j, 1);
#pragma GCC unroll 6
        for (int t = 0; t < Rows; ++t) {
          const __m256i activations = four_bytes_at(q.at(t, stride) + 4 * j);
          narrow[t][0] = add_products(narrow[t][0], first, activations, i == 0);
          narrow[t][1] = add_products(narrow[t][1], second, activations, i == 0);
        }
      }
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        const __m256i factors = widening_factors(wide, s, h);
#pragma GCC unroll 6
        for (int t = 0; t < Rows; ++t) {
          sums[t][h] = widen(sums[t][h], narrow[t][h], factors, s == 0);
        }
      }
    }
  }

  // What the rows give beside their integers and scales.
  static const void* third_of(const TileRows<PreparedBlock>& rows) {
    if constexpr (F::kFactors) return rows.prepared;
    if constexpr (F::kZeroPoint != 0) return rows.sum;
    return rows.scaled_sum;
  }

  template <int Rows, bool Expands>
  [[gnu::noinline]] static void tile(Segment<NarrowSums> segment, TileRows<PreparedBlock> rows,
                                     NextPanel next, float (*acc)[kPanelRows]) {
    std::ptrdiff_t stride = rows.blocks * kQuantBlock;
    std::ptrdiff_t floats = rows.blocks * static_cast<std::ptrdiff_t>(sizeof(float));
    RowPointers q(rows.q, stride);
    RowPointers scales(rows.scale, floats);
    RowPointers third(third_of(rows), floats);
    WideBlock* wide = segment.wide;
    for (int b = 0; b < segment.count; ++b, ++wide) {
      next.fetch_lines<(F::kBlockBytes + 63) / 64>();
      __asm__("" : "+r"(stride), "+r"(floats));
      __m256i sums[Rows][kHalves];
      const Block<F> block = block_of<F>(segment.panel, segment.first + b);
      if constexpr (Expands) {
        for (int h = 0; h < kHalves; ++h) expand_heads(block, h, wide->heads);
      }
      block_sums<Rows, Expands>(block, *wide, q, stride, sums);
      if constexpr (F::kFactors) {
        for (int t = 0; t < Rows; ++t) {
          const __m256i pair = four_bytes_at(third.at(t, floats));
          for (int h = 0; h < kHalves; ++h) {
            sums[t][h] = widen(sums[t][h], load(wide->heads.zero_factors[h]), pair, false);
          }
        }
      }
      // Otherwise the totals of large tiles are kept twice, in acc and on the stack.
      if constexpr (Rows > 3) __asm__ volatile("" : : : "memory");
#pragma GCC unroll 6
      for (int t = 0; t < Rows; ++t) {
        const __m256 row_scale = float_at(scales.at(t, floats));
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          __m256i sum = sums[t][h];
          if constexpr (F::kZeroPoint != 0 && !F::kFactors) {
            sum = less_zero_point<F>(sum, four_bytes_at(third.at(t, floats)));
          }
          float* at = acc[t] + 8 * h;
          __m256 total = add_block(_mm256_load_ps(at), sum,
                                   _mm256_load_ps(wide->heads.scale + 8 * h), row_scale);
          if constexpr (F::kZeroPoint == 0) {
            total = _mm256_fmadd_ps(_mm256_load_ps(wide->heads.minimum + 8 * h),
                                    float_at(third.at(t, floats)), total);
          }
          _mm256_store_ps(at, total);
        }
      }
      q.advance(kQuantBlock);
      scales.advance(sizeof(float));
      third.advance(sizeof(float));
    }
  }
};

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  if (x.rows == 0) return;
  if (!is_quantised(w.type)) {
    return float_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
  if (x.rows <= 2) return few_rows_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  const auto wide = [&]<typename F>(F) {
    wide_products<NarrowSums<F>>(w, x, panel_begin, panel_end, out, out_stride, mode);
  };
  switch (w.type) {
    case WeightType::Q8_0:
      return byte_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_0: return wide(Q4_0{});
    case WeightType::Q4_1: return wide(Q4_1{});
    case WeightType::Q5_0: return wide(Q5_0{});
    case WeightType::Q5_1: return wide(Q5_1{});
    case WeightType::Q4_K: return wide(Q4_K{});
    case WeightType::Q5_K: return wide(Q5_K{});
    case WeightType::Q6_K: return wide(Q6_K{});
    default: assert(false && "a weight type of the list");
  }
}

}  // namespace turnstile::kernels::avx2
