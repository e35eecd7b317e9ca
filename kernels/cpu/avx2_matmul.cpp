// Products with quantised weights for AVX2.
//
// The instruction at hand multiplies unsigned bytes by signed bytes and adds pairs into 16 bits.
// A nibble times an activation is at most 15 * 127, so the eight column quads of a block add up to
// at most 8 * 2 * 15 * 127 = 30,480: they fit 16 bits, and only one widening a block is needed.
// A byte of Q8_0 is taken as two nibbles, 16 * high + low, to keep that property.
#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_float_matmul.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kHalves = 2;           // a panel vector of 64 bytes is two registers of 8 rows
constexpr int kQuads = 8;            // column quads of a block
constexpr int kMaxTokens = 6;        // 2 * 6 sums, 2 weights, 1 activation, 1 product: 16 registers
constexpr int kGroupTokens = 64;      // activation rows that share one expansion of a panel
constexpr std::ptrdiff_t kGroupBytes = 128 * 1024;  // of their gathered blocks, to stay in L2
constexpr int kSegmentBytes = 14336;  // of expanded blocks, to stay in L1 beside the activations

struct Q4_0 {
  static constexpr int kHalfFloats = kPanelRows;
  static constexpr int kVectors = 4;
  static constexpr int kParts = 1;  // nibbles of a weight
};
struct Q4_1 {
  static constexpr int kHalfFloats = 2 * kPanelRows;
  static constexpr int kVectors = 4;
  static constexpr int kParts = 1;
};
struct Q8_0 {
  static constexpr int kHalfFloats = kPanelRows;
  static constexpr int kVectors = 8;
  static constexpr int kParts = 2;
};

template <typename Format>
constexpr std::size_t kBlockBytes = 2 * Format::kHalfFloats + 64 * Format::kVectors;

template <typename Format>
const std::uint8_t* weights_of(const std::uint8_t* block) {
  return block + 2 * Format::kHalfFloats;
}

__m256 halves_at(const std::uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

template <typename Format>
__m256 scale_of(const std::uint8_t* block, int half) {
  return halves_at(block + 16 * half);
}

// What a unit of scaled_sum adds: the stored minimum, or the zero point times the scale.
template <typename Format>
__m256 minimum_of(const std::uint8_t* block, int half, __m256 scale);
template <>
__m256 minimum_of<Q4_1>(const std::uint8_t* block, int half, __m256) {
  return halves_at(block + 32 + 16 * half);
}
template <>
__m256 minimum_of<Q4_0>(const std::uint8_t*, int, __m256 scale) {
  return _mm256_mul_ps(_mm256_set1_ps(-8.0F), scale);
}
template <>
__m256 minimum_of<Q8_0>(const std::uint8_t*, int, __m256 scale) {
  return _mm256_mul_ps(_mm256_set1_ps(-128.0F), scale);
}

__m256i bytes_at(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

__m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
__m256i high_nibbles(__m256i bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

__m256i quad_at(const std::int8_t* q) {
  std::int32_t quad = 0;
  std::memcpy(&quad, q, sizeof quad);
  return _mm256_set1_epi32(quad);
}

// Adds one quad's products; the first quad of a block starts the sum. The empty statement keeps
// the compiler from turning the chain of additions into a tree, whose leaves do not fit the
// registers (measured: half the speed).
__m256i add_products(__m256i sum, __m256i nibbles, __m256i activations, bool first) {
  const __m256i products = _mm256_maddubs_epi16(nibbles, activations);
  sum = first ? products : _mm256_add_epi16(sum, products);
  __asm__("" : "+x"(sum));
  return sum;
}

// Pairs of 16-bit sums of one nibble to 32 bits: part 0 starts the block's sums of 8 rows, part 1
// adds the high nibbles, which stand for 16 times as much.
__m256i widen(__m256i sums, __m256i narrow, int part) {
  if (part == 0) return _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(narrow, _mm256_set1_epi16(16)));
}

__m256 accumulate(__m256 acc, __m256i sums, __m256 scale, __m256 minimum, __m256 row_scale,
                  __m256 row_sum) {
  acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_mul_ps(scale, row_scale), acc);
  return _mm256_fmadd_ps(minimum, row_sum, acc);
}

// Rows of activations from one row on; block b of row t has q + t*cols + 32b and scale index
// t*blocks + b.
struct TokenView {
  const std::int8_t* q;
  const float* scale;
  const float* scaled_sum;
  std::ptrdiff_t cols;
  std::ptrdiff_t blocks;
};

TokenView view_from(const ActivationRows& x, int first, int first_block) {
  const std::ptrdiff_t blocks = x.cols / kQuantBlock;
  const std::ptrdiff_t at = first * blocks + first_block;
  return {x.q + at * kQuantBlock, x.scale + at, x.scaled_sum + at, x.cols, blocks};
}

void store_lanes(const float* acc, int lanes, OutputMode mode, float* out) {
  if (lanes == kPanelRows) {
    for (int h = 0; h < kHalves; ++h) {
      __m256 value = _mm256_loadu_ps(acc + 8 * h);
      if (mode == OutputMode::Add) value = _mm256_add_ps(_mm256_loadu_ps(out + 8 * h), value);
      _mm256_storeu_ps(out + 8 * h, value);
    }
    return;
  }
  for (int r = 0; r < lanes; ++r) out[r] = mode == OutputMode::Add ? out[r] + acc[r] : acc[r];
}

// ---- Few rows: the weights go from memory through the registers once. ----

// `Panels` panels times `Tokens` rows; acc[p][t] receives 16 outputs.
template <typename Format, int Panels, int Tokens>
void direct_tile(const std::uint8_t* panels, std::ptrdiff_t panel_bytes_each, const TokenView& x,
                 float (*acc)[Tokens][kPanelRows]) {
  __m256 total[Panels][Tokens][kHalves];
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Tokens; ++t) {
      for (int h = 0; h < kHalves; ++h) total[p][t][h] = _mm256_setzero_ps();
    }
  }
  for (std::ptrdiff_t b = 0; b < x.blocks; ++b) {
    const std::int8_t* q = x.q + b * kQuantBlock;
#pragma GCC unroll 4
    for (int p = 0; p < Panels; ++p) {
      const std::uint8_t* block =
          panels + p * panel_bytes_each + b * static_cast<std::ptrdiff_t>(kBlockBytes<Format>);
      const std::uint8_t* weights = weights_of<Format>(block);
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        __m256i sum[Tokens][Format::kParts];
#pragma GCC unroll 8
        for (int j = 0; j < Format::kVectors; ++j) {
          const __m256i bytes = bytes_at(weights + 64 * j + 32 * h);
          const __m256i low = low_nibbles(bytes);
          const __m256i high = high_nibbles(bytes);
#pragma GCC unroll 4
          for (int t = 0; t < Tokens; ++t) {
            const std::int8_t* row = q + t * x.cols;
            if constexpr (Format::kParts == 1) {
              sum[t][0] = add_products(sum[t][0], low, quad_at(row + 4 * j), j == 0);
              sum[t][0] = add_products(sum[t][0], high, quad_at(row + 4 * j + 16), false);
            } else {
              sum[t][0] = add_products(sum[t][0], low, quad_at(row + 4 * j), j == 0);
              sum[t][1] = add_products(sum[t][1], high, quad_at(row + 4 * j), j == 0);
            }
          }
        }
        const __m256 scale = scale_of<Format>(block, h);
        const __m256 minimum = minimum_of<Format>(block, h, scale);
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
          __m256i sums = widen(sum[t][0], sum[t][0], 0);
          if constexpr (Format::kParts == 2) sums = widen(sums, sum[t][1], 1);
          total[p][t][h] = accumulate(total[p][t][h], sums, scale, minimum,
                                      _mm256_set1_ps(x.scale[t * x.blocks + b]),
                                      _mm256_set1_ps(x.scaled_sum[t * x.blocks + b]));
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

template <typename Format, int Panels, int Tokens>
int direct_panels(const PanelMatrix& w, const ActivationRows& x, int panel, int panel_end,
                  float* out, std::size_t out_stride, OutputMode mode) {
  const std::ptrdiff_t each = static_cast<std::ptrdiff_t>(kBlockBytes<Format>) *
                              (w.cols / kQuantBlock);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  const TokenView view = view_from(x, 0, 0);
  for (; panel + Panels <= panel_end; panel += Panels) {
    alignas(32) float acc[Panels][Tokens][kPanelRows];
    direct_tile<Format, Panels, Tokens>(bytes + panel * each, each, view, acc);
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

template <typename Format, int Panels, int Tokens>
void direct(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  const int next = direct_panels<Format, Panels, Tokens>(w, x, panel_begin, panel_end, out,
                                                         out_stride, mode);
  direct_panels<Format, 1, Tokens>(w, x, next, panel_end, out, out_stride, mode);
}

// ---- Many rows: a panel's nibbles are expanded once and used by all tiles. ----

template <typename Format>
struct alignas(32) WideBlock {
  float scale[kPanelRows];
  float minimum[kPanelRows];
  std::uint8_t nibbles[Format::kParts][kQuads][64];
};

// One block of a tile's activations, gathered so that one pointer reaches all of it: with a
// pointer for each row, address arithmetic was a fifth of the instructions.
template <int Tokens>
struct TileBlock {
  std::int8_t q[Tokens][kQuantBlock];
  float scale[Tokens];
  float scaled_sum[Tokens];
};

constexpr std::ptrdiff_t kTokenBlockBytes = sizeof(TileBlock<1>);

template <typename Format>
constexpr int kSegmentBlocks = kSegmentBytes / static_cast<int>(sizeof(WideBlock<Format>));

template <typename Format>
void expand(const std::uint8_t* block, WideBlock<Format>& wide) {
  const std::uint8_t* weights = weights_of<Format>(block);
  for (int h = 0; h < kHalves; ++h) {
    const __m256 scale = scale_of<Format>(block, h);
    _mm256_store_ps(wide.scale + 8 * h, scale);
    _mm256_store_ps(wide.minimum + 8 * h, minimum_of<Format>(block, h, scale));
    for (int j = 0; j < Format::kVectors; ++j) {
      const __m256i bytes = bytes_at(weights + 64 * j + 32 * h);
      std::uint8_t* low = wide.nibbles[0][j] + 32 * h;
      std::uint8_t* high =
          (Format::kParts == 1 ? wide.nibbles[0][j + 4] : wide.nibbles[Format::kParts - 1][j]) +
          32 * h;
      _mm256_store_si256(reinterpret_cast<__m256i*>(low), low_nibbles(bytes));
      _mm256_store_si256(reinterpret_cast<__m256i*>(high), high_nibbles(bytes));
    }
  }
}

template <int Tokens>
void gather_tile(const ActivationRows& x, int first, TileBlock<Tokens>* tile) {
  const std::ptrdiff_t blocks = x.cols / kQuantBlock;
  for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
    for (int t = 0; t < Tokens; ++t) {
      const std::ptrdiff_t at = (first + t) * blocks + b;
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(tile->q[t]),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.q + at * kQuantBlock)));
      tile->scale[t] = x.scale[at];
      tile->scaled_sum[t] = x.scaled_sum[at];
    }
  }
}

// One expanded segment of a panel times one tile, added to acc. The first tile of a panel gives
// the same place of the next panel, to be fetched a block at a time: alone, the hardware loses the
// stream while the other tiles compute.
template <typename Format, int Tokens>
[[gnu::noinline]] void wide_tile(const WideBlock<Format>* wide, int blocks,
                                 const TileBlock<Tokens>* tile, const std::uint8_t* next_panel,
                                 float (*acc)[kPanelRows]) {
  for (int b = 0; b < blocks; ++b, ++wide, ++tile) {
    if (next_panel != nullptr) {
      for (std::size_t line = 0; line < kBlockBytes<Format>; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(next_panel + line), _MM_HINT_T0);
      }
      next_panel += kBlockBytes<Format>;
    }
    __m256i sums[Tokens][kHalves];
#pragma GCC unroll 2
    for (int part = 0; part < Format::kParts; ++part) {
      // Otherwise the compiler keeps the first part's broadcasts for the second, in memory.
      if (part == 1) __asm__ volatile("" : : : "memory");
      __m256i narrow[Tokens][kHalves];
#pragma GCC unroll 8
      for (int j = 0; j < kQuads; ++j) {
        const __m256i first = bytes_at(wide->nibbles[part][j]);
        const __m256i second = bytes_at(wide->nibbles[part][j] + 32);
#pragma GCC unroll 6
        for (int t = 0; t < Tokens; ++t) {
          const __m256i activations = quad_at(tile->q[t] + 4 * j);
          narrow[t][0] = add_products(narrow[t][0], first, activations, j == 0);
          narrow[t][1] = add_products(narrow[t][1], second, activations, j == 0);
        }
      }
#pragma GCC unroll 6
      for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          sums[t][h] = widen(sums[t][h], narrow[t][h], part);
        }
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < Tokens; ++t) {
      const __m256 row_scale = _mm256_set1_ps(tile->scale[t]);
      const __m256 row_sum = _mm256_set1_ps(tile->scaled_sum[t]);
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        float* total = acc[t] + 8 * h;
        _mm256_store_ps(total, accumulate(_mm256_load_ps(total), sums[t][h],
                                          _mm256_load_ps(wide->scale + 8 * h),
                                          _mm256_load_ps(wide->minimum + 8 * h), row_scale,
                                          row_sum));
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

template <typename Format>
struct WideWork {
  alignas(64) std::byte tiles[kGroupBytes];
  WideBlock<Format> segment[kSegmentBlocks<Format>];
  alignas(32) float acc[kGroupTokens][kPanelRows];

  template <int Tokens>
  TileBlock<Tokens>* tile_at(int row, std::ptrdiff_t blocks) {
    return reinterpret_cast<TileBlock<Tokens>*>(tiles + row * blocks * kTokenBlockBytes);
  }

  void gather(const ActivationRows& x, int first, Tiling tiling) {
    for_each_tile(tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
      gather_tile<Tokens>(x, first + t, tile_at<Tokens>(t, x.cols / kQuantBlock));
    });
  }

  // acc = one panel times the gathered rows.
  void multiply(const std::uint8_t* panel, std::ptrdiff_t blocks, Tiling tiling) {
    const std::ptrdiff_t to_next = static_cast<std::ptrdiff_t>(kBlockBytes<Format>) * blocks;
    for (int t = 0; t < tiling.count; ++t) {
      for (int h = 0; h < kHalves; ++h) _mm256_store_ps(acc[t] + 8 * h, _mm256_setzero_ps());
    }
    for (std::ptrdiff_t b = 0; b < blocks; b += kSegmentBlocks<Format>) {
      const int width = blocks - b < kSegmentBlocks<Format> ? static_cast<int>(blocks - b)
                                                             : kSegmentBlocks<Format>;
      const std::uint8_t* next = panel + to_next;
      for (int i = 0; i < width; ++i, panel += kBlockBytes<Format>) {
        expand<Format>(panel, segment[i]);
      }
      for_each_tile(
          tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
            wide_tile<Format, Tokens>(segment, width, tile_at<Tokens>(t, blocks) + b,
                                      t == 0 ? next : nullptr, acc + t);
          });
    }
  }
};

template <typename Format>
void wide(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
          float* out, std::size_t out_stride, OutputMode mode) {
  using Work = WideWork<Format>;
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
      work.multiply(bytes + panel * static_cast<std::ptrdiff_t>(kBlockBytes<Format>) * blocks,
                    blocks, tiling);
      const int row = panel * kPanelRows;
      const int lanes = w.rows - row < kPanelRows ? w.rows - row : kPanelRows;
      for (int t = 0; t < count; ++t) {
        store_lanes(work.acc[t], lanes, mode,
                    out + static_cast<std::size_t>(first + t) * out_stride + row);
      }
    }
  }
}

template <typename Format>
void quantised(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
               float* out, std::size_t out_stride, OutputMode mode) {
  switch (x.rows) {
    case 0: return;
    case 1: return direct<Format, 2, 1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case 2: return direct<Format, 2, 2>(w, x, panel_begin, panel_end, out, out_stride, mode);
    default: return wide<Format>(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  switch (w.type) {
    case WeightType::Q8_0:
      return quantised<Q8_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_0:
      return quantised<Q4_0>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::Q4_1:
      return quantised<Q4_1>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::F32:
    case WeightType::F16:
      return float_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace turnstile::kernels::avx2
