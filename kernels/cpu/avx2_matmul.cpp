// Products with quantised weights for AVX2, three rows of activations and more: a panel's weights
// are expanded to bytes once and used by all tiles of rows.
#include <cassert>
#include <utility>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_blocks.h"
#include "kernels/cpu/avx2_float_matmul.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kMaxTokens = 6;        // 2 * 6 sums, 2 weights, 1 activation, 1 product: 16 registers
constexpr int kGroupTokens = 64;      // activation rows that share one expansion of a panel
constexpr std::ptrdiff_t kGroupBytes = 128 * 1024;  // of their gathered blocks, to stay in L2
constexpr int kSegmentBytes = 14336;  // of expanded blocks, to stay in L1 beside the activations

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
struct alignas(32) WideBlock {
  WideHeads<F> heads;
  std::uint8_t weights[F::kParts][kQuads][64];
};

// One block of a tile's activations, gathered so that one pointer reaches all of it: with a
// pointer for each row, address arithmetic was a fifth of the instructions.
template <int Tokens>
struct TileBlock {
  std::int8_t q[Tokens][kQuantBlock];
  float scale[Tokens];
  union {
    float scaled_sum[Tokens];
    std::int32_t half_sums[Tokens];  // for Q6_K
  };
};

constexpr std::ptrdiff_t kTokenBlockBytes = sizeof(TileBlock<1>);

template <typename F>
constexpr int kSegmentBlocks = kSegmentBytes / static_cast<int>(sizeof(WideBlock<F>));

void store(void* to, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(to), v); }
__m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

template <typename F>
void expand_heads(Block<F> block, int half, WideHeads<F>& heads) {
  const __m256 scale = scale_of<F>(block, half);
  _mm256_store_ps(heads.scale + 8 * half, scale);
  if constexpr (F::kFactors) {
    for (int c = 0; c < 2; ++c) store(heads.factors[c][half], factors_of(block, c, half));
    store(heads.zero_factors[half], zero_factors_of(block, half));
  } else {
    _mm256_store_ps(heads.minimum + 8 * half, minimum_of<F>(block, half, scale));
  }
}

template <typename F>
void expand(Block<F> block, WideBlock<F>& wide) {
  constexpr bool kNibbles = F::kVectors == kQuads / 2;
  for (int h = 0; h < kHalves; ++h) {
    expand_heads<F>(block, h, wide.heads);
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

template <typename F, int Tokens>
void gather_tile(const ActivationRows& x, int first, TileBlock<Tokens>* tile) {
  const std::ptrdiff_t blocks = x.cols / kQuantBlock;
  for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
    for (int t = 0; t < Tokens; ++t) {
      const std::ptrdiff_t at = (first + t) * blocks + b;
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(tile->q[t]),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.q + at * kQuantBlock)));
      tile->scale[t] = x.scale[at];
      if constexpr (F::kFactors) {
        tile->half_sums[t] = half_sums(x.q + at * kQuantBlock);
      } else {
        tile->scaled_sum[t] = x.scaled_sum[at];
      }
    }
  }
}

// What a widening multiplies by: the weight of a part, or the factors of Q6_K.
template <typename F>
__m256i widening_factors(const WideBlock<F>& wide, int part, int sum, int half) {
  if constexpr (F::kFactors) {
    return load(wide.heads.factors[sum / (kQuads / F::kQuadsPerSum / 2)][half]);
  }
  return _mm256_set1_epi16(part == 0 ? 1 : 16);
}

// The exact integer sums of one block.
template <typename F, int Tokens>
[[gnu::always_inline]] inline void block_sums(const WideBlock<F>& wide,
                                              const TileBlock<Tokens>& tile,
                                              __m256i (&sums)[Tokens][kHalves]) {
  constexpr int kSums = kQuads / F::kQuadsPerSum;
#pragma GCC unroll 2
  for (int part = 0; part < F::kParts; ++part) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
      // Otherwise the compiler keeps the first part's broadcasts for the second, in memory.
      if (part + s > 0) __asm__ volatile("" : : : "memory");
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
        const __m256i factors = widening_factors<F>(wide, part, s, h);
#pragma GCC unroll 6
        for (int t = 0; t < Tokens; ++t) {
          sums[t][h] = widen(sums[t][h], narrow[t][h], factors, part + s == 0);
        }
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

// One expanded segment of a panel times one tile, added to acc. The first tile of a panel gives
// the same place of the next panel, to be fetched a block at a time: alone, the hardware loses the
// stream while the other tiles compute.
template <typename F, int Tokens>
[[gnu::noinline]] void wide_tile(const WideBlock<F>* wide, int blocks,
                                 const TileBlock<Tokens>* tile, const std::uint8_t* next_panel,
                                 float (*acc)[kPanelRows]) {
  for (int b = 0; b < blocks; ++b, ++wide, ++tile) {
    if (next_panel != nullptr) {
      for (std::ptrdiff_t line = 0; line < F::kBlockBytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(next_panel + line), _MM_HINT_T0);
      }
      next_panel += F::kBlockBytes;
    }
    __m256i sums[Tokens][kHalves];
    block_sums<F, Tokens>(*wide, *tile, sums);
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

// How `count` rows are cut into tiles of nearly equal size: 8 rows are 4 + 4, not 6 + 2.
struct Tiling {
  int count;
  int tiles;
  int rows_of(int tile) const { return count * (tile + 1) / tiles - count * tile / tiles; }
};

// Calls visit(std::integral_constant<int, rows of the tile>, first row) for each tile.
template <typename Visit>
void for_each_tile(Tiling tiling, Visit visit) {
  for (int i = 0, t = 0; i < tiling.tiles; ++i) {
    const int rows = tiling.rows_of(i);
    [&]<int... Tokens>(std::integer_sequence<int, Tokens...>) {
      ((rows == Tokens + 1 ? visit(std::integral_constant<int, Tokens + 1>{}, t) : void()), ...);
    }(std::make_integer_sequence<int, kMaxTokens>{});
    t += rows;
  }
}

template <typename F>
struct WideWork {
  alignas(64) std::byte tiles[kGroupBytes];
  WideBlock<F> segment[kSegmentBlocks<F>];
  alignas(32) float acc[kGroupTokens][kPanelRows];

  template <int Tokens>
  TileBlock<Tokens>* tile_at(int row, std::ptrdiff_t blocks) {
    return reinterpret_cast<TileBlock<Tokens>*>(tiles + row * blocks * kTokenBlockBytes);
  }

  void gather(const ActivationRows& x, int first, Tiling tiling) {
    for_each_tile(tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
      gather_tile<F, Tokens>(x, first + t, tile_at<Tokens>(t, x.cols / kQuantBlock));
    });
  }

  // acc = one panel times the gathered rows.
  void multiply(const std::uint8_t* panel, std::ptrdiff_t blocks, Tiling tiling) {
    const std::uint8_t* next_panel = panel + panel_stride<F>(blocks);
    for (int t = 0; t < tiling.count; ++t) {
      for (int h = 0; h < kHalves; ++h) _mm256_store_ps(acc[t] + 8 * h, _mm256_setzero_ps());
    }
    for (std::ptrdiff_t b = 0; b < blocks; b += kSegmentBlocks<F>) {
      const int width = blocks - b < kSegmentBlocks<F> ? static_cast<int>(blocks - b)
                                                             : kSegmentBlocks<F>;
      for (int i = 0; i < width; ++i) expand<F>(block_of<F>(panel, b + i), segment[i]);
      const std::uint8_t* next = block_of<F>(next_panel, b).at;
      for_each_tile(
          tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
            wide_tile<F, Tokens>(segment, width, tile_at<Tokens>(t, blocks) + b,
                                      t == 0 ? next : nullptr, acc + t);
          });
    }
  }
};

template <typename F>
void wide(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
          float* out, std::size_t out_stride, OutputMode mode) {
  using Work = WideWork<F>;
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  const int fitting = static_cast<int>(kGroupBytes / (blocks * kTokenBlockBytes));
  assert(fitting >= kMaxTokens && "a tile of rows fits the workspace");
  const int group = fitting < kGroupTokens ? fitting : kGroupTokens;
  const Tiling groups{x.rows, (x.rows + group - 1) / group};
  Work work;
  for (int g = 0, first = 0; g < groups.tiles; first += groups.rows_of(g), ++g) {
    const int count = groups.rows_of(g);
    const Tiling tiling{count, (count + kMaxTokens - 1) / kMaxTokens};
    work.gather(x, first, tiling);
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      work.multiply(bytes + panel * panel_stride<F>(blocks), blocks, tiling);
      const int row = panel * kPanelRows;
      const int lanes = w.rows - row < kPanelRows ? w.rows - row : kPanelRows;
      for (int t = 0; t < count; ++t) {
        store_lanes(work.acc[t], lanes, mode,
                    out + static_cast<std::size_t>(first + t) * out_stride + row);
      }
    }
  }
}

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  if (x.rows == 0) return;
  switch (w.type) {
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16:
      return float_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
    default: break;
  }
  if (x.rows <= 2) return few_rows_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  switch (w.type) {
    case WeightType::Q8_0: return wide<Q8_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_0: return wide<Q4_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_1: return wide<Q4_1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_0: return wide<Q5_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_1: return wide<Q5_1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_K: return wide<Q4_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q5_K: return wide<Q5_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q6_K: return wide<Q6_K>(w, x, panel_begin, panel_end, out, out_stride, mode);
    default: assert(false && "a weight type of the list");
  }
}

}  // namespace turnstile::kernels::avx2
