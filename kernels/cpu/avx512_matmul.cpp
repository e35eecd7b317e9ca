// Products for AVX-512 VNNI: unsigned weight bytes times signed activations, four columns of 16
// rows an instruction, a tile of two panels and up to six activation rows.
#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/avx512.h"

namespace turnstile::kernels::avx512 {
namespace {

constexpr int kPanels = 2;     // panels of a tile
constexpr int kQuads = 8;      // column quads of a block
constexpr int kMaxTokens = 6;  // 2 * 6 integer and 2 * 6 float sums leave 8 registers
constexpr int kGroupTokens = 96;  // activation rows gathered at once
constexpr std::ptrdiff_t kGroupBytes = 128 * 1024;  // of their gathered blocks

struct Q4_0 {
  static constexpr int kHalfFloats = kPanelRows;
  static constexpr int kVectors = 4;
};
struct Q4_1 {
  static constexpr int kHalfFloats = 2 * kPanelRows;
  static constexpr int kVectors = 4;
};
struct Q8_0 {
  static constexpr int kHalfFloats = kPanelRows;
  static constexpr int kVectors = 8;
};

template <typename Format>
constexpr std::ptrdiff_t kBlockBytes = 2 * Format::kHalfFloats + 64 * Format::kVectors;

__m512 halves_at(const std::uint8_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// What a unit of scaled_sum adds: the stored minimum, or the zero point times the scale.
template <typename Format>
__m512 minimum_of(const std::uint8_t* block, __m512 scale) {
  if constexpr (std::is_same_v<Format, Q4_1>) {
    return halves_at(block + 32);
  } else {
    constexpr float kZeroPoint = Format::kVectors == kQuads ? 128.0F : 8.0F;
    return _mm512_mul_ps(_mm512_set1_ps(-kZeroPoint), scale);
  }
}

// The weights of column quad j of 16 rows. For nibbles quads j and j + 4 share a vector.
template <typename Format>
__m512i quad_of(const std::uint8_t* block, int j) {
  const std::uint8_t* weights = block + 2 * Format::kHalfFloats;
  const __m512i bytes = _mm512_loadu_si512(weights + 64 * (j % Format::kVectors));
  if constexpr (Format::kVectors == kQuads) {
    return bytes;
  } else {
    const __m512i nibble = _mm512_set1_epi8(15);
    return _mm512_and_si512(j < Format::kVectors ? bytes : _mm512_srli_epi16(bytes, 4), nibble);
  }
}

__m512i activations_at(const std::int8_t* q) {
  std::int32_t quad = 0;
  std::memcpy(&quad, q, sizeof quad);
  return _mm512_set1_epi32(quad);
}

// One block of a tile's activations, gathered so that one pointer reaches all of it.
template <int Tokens>
struct TileBlock {
  std::int8_t q[Tokens][kQuantBlock];
  float scale[Tokens];
  float scaled_sum[Tokens];
};

constexpr std::ptrdiff_t kTokenBlockBytes = sizeof(TileBlock<1>);

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

void store_lanes(__m512 value, int lanes, OutputMode mode, float* out) {
  if (lanes == kPanelRows) {
    if (mode == OutputMode::Add) value = _mm512_add_ps(_mm512_loadu_ps(out), value);
    _mm512_storeu_ps(out, value);
    return;
  }
  alignas(64) float values[kPanelRows];
  _mm512_store_ps(values, value);
  for (int r = 0; r < lanes; ++r) out[r] = mode == OutputMode::Add ? out[r] + values[r] : values[r];
}

int lanes_of(const PanelMatrix& w, int panel) {
  const int lanes = w.rows - panel * kPanelRows;
  return lanes < kPanelRows ? lanes : kPanelRows;
}

struct Output {
  float* at;  // row 0 of the tile, output 0 of the first panel
  std::size_t stride;
  OutputMode mode;
  int lanes[kPanels];  // outputs of each panel; 0 if it is not to be stored
};

// Where a pair of panels begins. An odd panel at the end of a range is computed twice and stored
// once, which is cheaper than a second set of kernels.
struct PanelPair {
  const std::uint8_t* at[kPanels];
  const std::uint8_t* next;  // the panels to fetch meanwhile, none for all tiles but the first
  std::ptrdiff_t panel_bytes;
};

// A pair of panels times `Tokens` rows. The first tile asks for the same place of the panels that
// follow, a block at a time: the hardware alone loses the stream at panel ends.
template <typename Format, int Tokens>
[[gnu::noinline]] void multiply_tile(PanelPair pair, std::ptrdiff_t blocks,
                                     const TileBlock<Tokens>* tile, const Output& out) {
  __m512 total[kPanels][Tokens];
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < Tokens; ++t) total[p][t] = _mm512_setzero_ps();
  }
  for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
    __m512i sum[kPanels][Tokens];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 6
      for (int t = 0; t < Tokens; ++t) sum[p][t] = _mm512_setzero_si512();
    }
#pragma GCC unroll 8
    for (int j = 0; j < kQuads; ++j) {
      __m512i weights[kPanels];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) weights[p] = quad_of<Format>(pair.at[p], j);
#pragma GCC unroll 6
      for (int t = 0; t < Tokens; ++t) {
        const __m512i activations = activations_at(tile->q[t] + 4 * j);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          sum[p][t] = _mm512_dpbusd_epi32(sum[p][t], weights[p], activations);
        }
      }
    }
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const __m512 scale = halves_at(pair.at[p]);
      const __m512 minimum = minimum_of<Format>(pair.at[p], scale);
#pragma GCC unroll 6
      for (int t = 0; t < Tokens; ++t) {
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(tile->scale[t]));
        total[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][t]), both, total[p][t]);
        total[p][t] =
            _mm512_fmadd_ps(minimum, _mm512_set1_ps(tile->scaled_sum[t]), total[p][t]);
      }
      pair.at[p] += kBlockBytes<Format>;
    }
    if (pair.next != nullptr) {
      for (std::ptrdiff_t line = 0; line < kBlockBytes<Format>; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(pair.next + line), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(pair.next + pair.panel_bytes + line),
                     _MM_HINT_T0);
      }
      pair.next += kBlockBytes<Format>;
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    float* row = out.at + static_cast<std::size_t>(t) * out.stride;
    for (int p = 0; p < kPanels; ++p) {
      if (out.lanes[p] > 0) store_lanes(total[p][t], out.lanes[p], out.mode, row + p * kPanelRows);
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

struct GatheredRows {
  alignas(64) std::byte bytes[kGroupBytes];

  template <int Tokens>
  TileBlock<Tokens>* tile_at(int row, std::ptrdiff_t blocks) {
    return reinterpret_cast<TileBlock<Tokens>*>(bytes + row * blocks * kTokenBlockBytes);
  }
};

template <typename Format>
void multiply_panels(const PanelMatrix& w, GatheredRows& rows, Tiling tiling, int panel,
                     int panel_end, float* out, std::size_t out_stride, OutputMode mode) {
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const std::ptrdiff_t each = kBlockBytes<Format> * blocks;
  for (; panel < panel_end; panel += kPanels) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(w.data) + panel * each;
    const bool both = panel + 1 < panel_end;
    const PanelPair pair{{first, both ? first + each : first}, first + kPanels * each, each};
    Output to{out + panel * kPanelRows, out_stride, mode,
              {lanes_of(w, panel), both ? lanes_of(w, panel + 1) : 0}};
    for_each_tile(tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
      PanelPair from = pair;
      if (t > 0) from.next = nullptr;
      to.at = out + static_cast<std::size_t>(t) * out_stride + panel * kPanelRows;
      multiply_tile<Format, Tokens>(from, blocks, rows.tile_at<Tokens>(t, blocks), to);
    });
  }
}

template <typename Format>
void quantised(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
               float* out, std::size_t out_stride, OutputMode mode) {
  if (x.rows == 0 || panel_begin == panel_end) return;
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const int fitting = static_cast<int>(kGroupBytes / (blocks * kTokenBlockBytes));
  assert(fitting >= kMaxTokens && "a tile of rows fits the workspace");
  const int group = fitting < kGroupTokens ? fitting : kGroupTokens;
  const Tiling groups{x.rows, (x.rows + group - 1) / group};
  GatheredRows rows;
  for (int g = 0, first = 0; g < groups.tiles; first += groups.rows_of(g), ++g) {
    const int count = groups.rows_of(g);
    const Tiling tiling{count, (count + kMaxTokens - 1) / kMaxTokens};
    for_each_tile(tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
      gather_tile<Tokens>(x, first + t, rows.tile_at<Tokens>(t, blocks));
    });
    float* to = out + static_cast<std::size_t>(first) * out_stride;
    multiply_panels<Format>(w, rows, tiling, panel_begin, panel_end, to, out_stride, mode);
  }
}

// ---- F16 and F32 weights: one fused multiply-add a column, from column 0 on. ----

constexpr int kFloatTokens = 8;

struct HalfColumns {
  static constexpr std::ptrdiff_t kBytes = 2 * kPanelRows;
  static __m512 load(const std::uint8_t* column) { return halves_at(column); }
};

struct FloatColumns {
  static constexpr std::ptrdiff_t kBytes = 4 * kPanelRows;
  static __m512 load(const std::uint8_t* column) {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(column));
  }
};

template <typename Columns, int Tokens>
void float_tile(const std::uint8_t* panel, const float* x, std::ptrdiff_t cols, const Output& out) {
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
    store_lanes(sum[t], out.lanes[0], out.mode, out.at + static_cast<std::size_t>(t) * out.stride);
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
      const Output to{out + static_cast<std::size_t>(t) * out_stride + panel * kPanelRows,
                      out_stride, mode, {lanes_of(w, panel), 0}};
      if (x.rows - t >= kFloatTokens) {
        float_tile<Columns, kFloatTokens>(from, rows, x.cols, to);
        t += kFloatTokens;
      } else {
        float_tile<Columns, 1>(from, rows, x.cols, to);
        t += 1;
      }
    }
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
    case WeightType::F16:
      return float_panels<HalfColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
    case WeightType::F32:
      return float_panels<FloatColumns>(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace turnstile::kernels::avx512
