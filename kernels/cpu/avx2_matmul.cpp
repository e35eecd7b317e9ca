// Products with weights of 4, 5 and 6 bits for AVX2, three rows of activations and more, with those
// of 8 bits for three to six rows, and the choice among the products of this level. avx2_blocks.h
// says how many byte products a 16-bit sum holds; here the weights of a block are bytes, 64 for
// each column quad (8 rows a register):
//
//   WideBlock:  scales, minima (or factors) of 16 rows | quad 0: 16 rows x 4 | quad 1 | .. | quad 7
//               8-bit weights: the low nibbles of all quads, then the high ones
//   TileBlock:  32 activations of row 0 | of row 1 | .. | scales of the rows | their scaled sums
#include <cassert>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_float_matmul.h"
#include "kernels/cpu/avx2_wide.h"

namespace turnstile::kernels::avx2 {
namespace {

// Up to so many rows, one tile, weights of 8 bits are taken as nibbles; more pay for paired
// products (measured: 5 rows 8 to 11 % faster as nibbles, 12 rows 4 to 6 % slower).
constexpr int kNibbleRows = 6;

// What turns the sums of a block into outputs, of 16 rows.
template <typename F>
struct WideHeads {
  float scale[kPanelRows];
  float minimum[kPanelRows];
};
template <>
struct WideHeads<Q6_K> {
  float scale[kPanelRows];
  std::int16_t factors[2][kHalves][kPanelRows];  // of the first and the last 16 columns
  std::int16_t zero_factors[kHalves][kPanelRows];
};

template <typename F>
struct NarrowSums {
  using Format = F;
  static constexpr int kMaxTokens = 6;  // 2 * 6 sums, 2 weights, 1 activation, 1 product

  struct alignas(32) WideBlock {
    WideHeads<F> heads;
    std::uint8_t weights[F::kParts][kQuads][64];
  };

  // One pointer reaches all of it: with a pointer for each row, address arithmetic was a fifth of
  // the instructions.
  template <int Tokens>
  struct TileBlock {
    std::int8_t q[Tokens][kQuantBlock];
    float scale[Tokens];
    union {
      float scaled_sum[Tokens];
      std::int32_t half_sums[Tokens];  // for Q6_K
    };
  };

  static void expand(Block<F> block, WideBlock& wide) {
    constexpr bool kNibbles = F::kVectors == kQuads / 2;
    for (int h = 0; h < kHalves; ++h) {
      expand_heads(block, h, wide.heads);
      for (int j = 0; j < F::kVectors; ++j) {
        const __m256i bytes = bytes_at(block.weights() + 64 * j + 32 * h);
        if constexpr (kNibbles) {
          store(wide.weights[0][j] + 32 * h, low_nibbles(bytes));
          store(wide.weights[0][j + 4] + 32 * h, high_nibbles(bytes));
        } else if constexpr (F::kParts == 2) {
          store(wide.weights[0][j] + 32 * h, low_nibbles(bytes));
          store(wide.weights[1][j] + 32 * h, high_nibbles(bytes));
        } else {
          store(wide.weights[0][j] + 32 * h, bytes);
        }
      }
    }
  }

  static void expand_heads(Block<F> block, int half, WideHeads<F>& heads) {
    const __m256 scale = scale_of<F>(block, half);
    _mm256_store_ps(heads.scale + 8 * half, scale);
    if constexpr (F::kFactors) {
      for (int c = 0; c < 2; ++c) store(heads.factors[c][half], factors_of(block, c, half));
      store(heads.zero_factors[half], zero_factors_of(block, half));
    } else {
      _mm256_store_ps(heads.minimum + 8 * half, minimum_of<F>(block, half, scale));
    }
  }

  template <int Tokens>
  static void gather(const ActivationRows& x, int first, TileBlock<Tokens>* tile) {
    const std::ptrdiff_t blocks = x.cols / kQuantBlock;
    for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
      for (int t = 0; t < Tokens; ++t) {
        const std::ptrdiff_t at = (first + t) * blocks + b;
        std::memcpy(tile->q[t], x.q + at * kQuantBlock, kQuantBlock);
        tile->scale[t] = x.scale[at];
        if constexpr (F::kFactors) {
          tile->half_sums[t] = half_sums(x.q + at * kQuantBlock);
        } else {
          tile->scaled_sum[t] = x.scaled_sum[at];
        }
      }
    }
  }

  // What a widening multiplies by: the worth of a part, or the factors of Q6_K.
  static __m256i widening_factors(const WideBlock& wide, int part, int sum, int half) {
    if constexpr (F::kFactors) {
      return load(wide.heads.factors[sum / (kQuads / F::kQuadsPerSum / 2)][half]);
    }
    return _mm256_set1_epi16(part == 0 ? 1 : 16);
  }

  // The exact integer sums of one block.
  template <int Tokens>
  [[gnu::always_inline]] static inline void block_sums(const WideBlock& wide,
                                                       const TileBlock<Tokens>& tile,
                                                       __m256i (&sums)[Tokens][kHalves]) {
    constexpr int kSums = kQuads / F::kQuadsPerSum;
#pragma GCC unroll 4
    for (int n = 0; n < F::kParts * kSums; ++n) {
      const int part = n / kSums;
      const int s = n % kSums;
      // Otherwise the compiler keeps activations of the first sum for the next, in memory.
      if (n > 0) __asm__ volatile("" : : : "memory");
      __m256i narrow[Tokens][kHalves];
#pragma GCC unroll 8
      for (int i = 0; i < F::kQuadsPerSum; ++i) {
        const int j = s * F::kQuadsPerSum + i;
        const __m256i first = load(wide.weights[part][j]);
        const __m256i second = load(wide.weights[part][j] + 32);
#pragma GCC unroll 6
        for (int t = 0; t < Tokens; ++t) {
          const __m256i activations = quad_at(tile.q[t] + 4 * j);
          narrow[t][0] = add_products(narrow[t][0], first, activations, i == 0);
          narrow[t][1] = add_products(narrow[t][1], second, activations, i == 0);
        }
      }
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        const __m256i factors = widening_factors(wide, part, s, h);
#pragma GCC unroll 6
        for (int t = 0; t < Tokens; ++t) {
          sums[t][h] = widen(sums[t][h], narrow[t][h], factors, n == 0);
        }
      }
    }
    if constexpr (F::kFactors) {
      for (int t = 0; t < Tokens; ++t) {
        const __m256i pair = _mm256_set1_epi32(tile.half_sums[t]);
        for (int h = 0; h < kHalves; ++h) {
          sums[t][h] = widen(sums[t][h], load(wide.heads.zero_factors[h]), pair, false);
        }
      }
    }
  }

  template <int Tokens>
  [[gnu::noinline]] static void tile(const WideBlock* wide, int blocks,
                                     const TileBlock<Tokens>* tile, NextPanel next,
                                     float (*acc)[kPanelRows]) {
    for (int b = 0; b < blocks; ++b, ++wide, ++tile) {
      next.fetch_lines<(F::kBlockBytes + 63) / 64>();
      __m256i sums[Tokens][kHalves];
      block_sums<Tokens>(*wide, *tile, sums);
      // Otherwise the totals of large tiles are kept twice, in acc and on the stack.
      if constexpr (Tokens > 3) __asm__ volatile("" : : : "memory");
#pragma GCC unroll 6
      for (int t = 0; t < Tokens; ++t) {
        const __m256 row_scale = _mm256_set1_ps(tile->scale[t]);
        const __m256 row_sum = _mm256_set1_ps(tile->scaled_sum[t]);
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          float* total = acc[t] + 8 * h;
          __m256 minimum = row_sum;
          if constexpr (!F::kFactors) minimum = _mm256_load_ps(wide->heads.minimum + 8 * h);
          _mm256_store_ps(total, accumulate<F>(_mm256_load_ps(total), sums[t][h],
                                               _mm256_load_ps(wide->heads.scale + 8 * h), minimum,
                                               row_scale, row_sum));
        }
      }
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
      if (x.rows <= kNibbleRows) return wide(Q8_0{});
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
