// Products on AMX tiles of bf16, for chunks of prompts.
//
// Two panels are widened into a stripe of bf16, a segment of their columns at a time, and the sums
// of up to 32 rows times 32 outputs stay in tiles over the segment:
//
//   one panel in a stripe: 32 columns are a tile       rows:  a tile is 16 rows x 32 columns,
//   +-------+-------+-- .. --+-------+                        as activations.h stores them
//   | r0    | r1    |        | r15   |  columns 0, 1
//   | ...                            |                 A0 | C0  C1 |      C: 16 rows x 16 outputs
//   | r0    | r1    |        | r15   |  columns 30, 31 A1 | C2  C3 |
//   +-------+-------+-- .. --+-------+                      B0  B1
//      each cell two bf16
//
// Widening costs as much for one row as for hundreds, so this pays from about 64 rows on (measured
// with a prototype on a Xeon: 0.75 times the speed of int8 at 32 rows, 1.45 at 128, 1.8 at 512).
//
// The order of reduction is the instruction's: 32 columns are an even and an odd chain of fused
// multiply-adds from zero, which are added, and their sum is added to C. A tile that leaves for the
// next segment comes back as it was, so neither segments nor groups of rows show in the bits.
// Reference: the Scalar level under Bf16, bit for bit; every edge: tests/kernels/bf16_test.cpp.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.
#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cpu/amx_bf16.h"

namespace turnstile::kernels::amx {
namespace {

#include "kernels/cpu/avx512_simd.inc"
#include "kernels/cpu/vnni_blocks.inc"
#include "kernels/cpu/amx_tiles.inc"

constexpr int kGroupRows = 2 * kTileRows;
constexpr int kStripePanels = 2;
constexpr int kPairs = kQuantBlock / 2;
constexpr int kSegmentBlocks = 48;  // a stripe of 96 KiB, beside the rows in the L2 cache
constexpr int kMostRows = 512;      // whose sums wait between segments

int at_most(int most, int value) { return value < most ? value : most; }

// Upper halves: the bf16 of each lane. Lower halves: zero.
__m512i rounded(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 is_kept =
      _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(kSmallestBf16Bits));
  return _mm512_maskz_and_epi32(is_kept, up, _mm512_set1_epi32(std::int32_t{-0x10000}));
}

// 32 floats in their order.
__m512i rounded_row(const float* from) {
  const __m512i low = _mm512_srli_epi32(rounded(_mm512_loadu_ps(from)), 16);
  const __m512i high = _mm512_srli_epi32(rounded(_mm512_loadu_ps(from + 16)), 16);
  const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  return _mm512_permutexvar_epi64(order, _mm512_packus_epi32(low, high));
}

using WideBlock = std::uint16_t[kPairs][2 * kPanelRows];

// Two columns of 16 outputs.
void store_pair(__m512 first, __m512 second, std::uint16_t* to) {
  const __m512i pair = _mm512_or_si512(_mm512_srli_epi32(rounded(first), 16), rounded(second));
  _mm512_storeu_si512(to, pair);
}

// The weights of a quantised block are u * scale + minimum in one rounding, as their definition
// gives them: u * scale is exact in a float for every format.
template <typename F>
void widen_block(const Block<F>& block, WideBlock& wide) {
  Simd::Floats scale = scale_of<F>(block);
  Simd::Floats minimum = minimum_of<F>(block, scale);
  for (int j = 0; j < kQuads; ++j) {
    if constexpr (F::kFactors) {
      if (j % (kQuads / 2) == 0) {
        const std::uint8_t* factors = block.at + j / (kQuads / 2) * kPanelRows;
        scale = Simd::mul(Simd::halves_at(block.super),
                          Simd::to_floats(Simd::signed_bytes_at(factors)));
        minimum = Simd::mul(Simd::set1(static_cast<float>(-F::kZeroPoint)), scale);
      }
    }
    const Simd::Ints quad = quad_of<F>(block.weights(), j);
    Simd::Floats column[4];
    for (int k = 0; k < 4; ++k) {
      const Simd::Ints byte =
          _mm512_and_si512(_mm512_srli_epi32(quad, static_cast<unsigned>(8 * k)),
                           _mm512_set1_epi32(255));
      column[k] = Simd::fma(Simd::to_floats(byte), scale, minimum);
    }
    store_pair(column[0], column[1], wide[2 * j]);
    store_pair(column[2], column[3], wide[2 * j + 1]);
  }
}

template <typename F>
void widen_quantised(const std::uint8_t* panel, int first, int count, WideBlock* wide) {
  for (int b = 0; b < count; ++b) widen_block<F>(block_of<F>(panel, first + b), wide[b]);
}

__m512 float_column(WeightType type, const std::uint8_t* panel, std::ptrdiff_t column) {
  switch (type) {
    case WeightType::F32:
      return _mm512_loadu_ps(panel + column * std::ptrdiff_t{kPanelRows * sizeof(float)});
    case WeightType::F16:
      return Simd::halves_at(panel + column * std::ptrdiff_t{kPanelRows * 2});
    default: {
      const auto* at = panel + column * std::ptrdiff_t{kPanelRows * 2};
      return _mm512_castsi512_ps(_mm512_slli_epi32(
          _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))), 16));
    }
  }
}

// Columns past the end of the matrix are zero.
void widen_floats(const PanelMatrix& w, const std::uint8_t* panel, int first, int count,
                  WideBlock* wide) {
  const auto column = [&](int c) {
    return c < w.cols ? float_column(w.type, panel, c) : _mm512_setzero_ps();
  };
  for (int b = 0; b < count; ++b) {
    for (int p = 0; p < kPairs; ++p) {
      const int c = (first + b) * kQuantBlock + 2 * p;
      store_pair(column(c), column(c + 1), wide[b][p]);
    }
  }
}

void widen(const PanelMatrix& w, int panel, int first, int count, WideBlock* wide) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(
      w.data + static_cast<std::size_t>(panel) * panel_bytes(w.type, kPanelRows, w.cols));
  switch (w.type) {
    case WeightType::Q8_0: return widen_quantised<Q8_0>(at, first, count, wide);
    case WeightType::Q4_0: return widen_quantised<Q4_0>(at, first, count, wide);
    case WeightType::Q4_1: return widen_quantised<Q4_1>(at, first, count, wide);
    case WeightType::Q5_0: return widen_quantised<Q5_0>(at, first, count, wide);
    case WeightType::Q5_1: return widen_quantised<Q5_1>(at, first, count, wide);
    case WeightType::Q4_K: return widen_quantised<Q4_K>(at, first, count, wide);
    case WeightType::Q5_K: return widen_quantised<Q5_K>(at, first, count, wide);
    case WeightType::Q6_K: return widen_quantised<Q6_K>(at, first, count, wide);
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16: return widen_floats(w, at, first, count, wide);
  }
}

// Rows of the two tiles of a group; the second may have none.
struct GroupShape {
  int first = 0;
  int second = 0;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights; all have rows of 64 bytes.
void configure_group(GroupShape shape) {
  const TileShape first{shape.first, 64};
  const TileShape second{shape.second, shape.second == 0 ? 0 : 64};
  constexpr TileShape kWeights{kPairs, 64};
  configure_tiles({first, first, second, second, first, second, kWeights, kWeights});
}

struct Work {
  alignas(64) WideBlock stripe[kStripePanels][kSegmentBlocks];
  alignas(64) float acc[kMostRows][kStripePanels * kPanelRows];
};

// acc of one group = (or +=, past the first segment) its rows times the stripe.
void multiply_group(const Work& work, int panels, int blocks, const std::uint16_t* rows,
                    std::ptrdiff_t stride, GroupShape shape, bool is_first,
                    float (*acc)[kStripePanels * kPanelRows]) {
  constexpr std::ptrdiff_t kAccBytes = sizeof *acc;
  const bool wide = panels == kStripePanels;
  const bool tall = shape.second > 0;
  const std::uint16_t* below = rows + shape.first * stride;
  const std::ptrdiff_t row_bytes = stride * std::ptrdiff_t{sizeof *rows};
  float* const sums[4] = {acc[0], acc[0] + kPanelRows, acc[shape.first],
                          acc[shape.first] + kPanelRows};
  if (is_first) {
    _tile_zero(0);
    if (wide) _tile_zero(1);
    if (tall) _tile_zero(2);
    if (wide && tall) _tile_zero(3);
  } else {
    _tile_loadd(0, sums[0], kAccBytes);
    if (wide) _tile_loadd(1, sums[1], kAccBytes);
    if (tall) _tile_loadd(2, sums[2], kAccBytes);
    if (wide && tall) _tile_loadd(3, sums[3], kAccBytes);
  }
  for (int b = 0; b < blocks; ++b) {
    _tile_loadd(4, rows + b * kQuantBlock, row_bytes);
    _tile_loadd(6, work.stripe[0][b], 64);
    _tile_dpbf16ps(0, 4, 6);
    if (wide) {
      _tile_loadd(7, work.stripe[1][b], 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (tall) {
      _tile_loadd(5, below + b * kQuantBlock, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if (wide) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0], kAccBytes);
  if (wide) _tile_stored(1, sums[1], kAccBytes);
  if (tall) _tile_stored(2, sums[2], kAccBytes);
  if (wide && tall) _tile_stored(3, sums[3], kAccBytes);
}

// Rows of nearly equal groups, the larger ones first, so that the tiles of a stripe are configured
// twice at most.
struct Groups {
  int rows;
  int count;

  explicit Groups(int row_count)
      : rows(row_count), count((row_count + kGroupRows - 1) / kGroupRows) {}
  int rows_of(int group) const { return rows / count + (group < rows % count ? 1 : 0); }
};

class Product {
 public:
  Product(const PanelMatrix& w, const ActivationRows& x, float* out, std::size_t out_stride,
          OutputMode mode)
      : w_(w), x_(x), stride_(bf16_stride(x.cols)), out_(out), out_stride_(out_stride),
        mode_(mode) {}

  // Rows [first_row, first_row + rows) times panels [panel, panel + panels).
  void run_stripe(int panel, int panels, int first_row, int rows) {
    const int blocks = static_cast<int>(stride_) / kQuantBlock;
    const Groups groups(rows);
    for (int b = 0; b < blocks; b += kSegmentBlocks) {
      const int count = at_most(kSegmentBlocks, blocks - b);
      for (int p = 0; p < panels; ++p) widen(w_, panel + p, b, count, work_.stripe[p]);
      for (int g = 0, row = 0; g < groups.count; row += groups.rows_of(g), ++g) {
        const int size = groups.rows_of(g);
        const GroupShape shape{(size + 1) / 2, size / 2};
        if (shape != configured_) configure_group(configured_ = shape);
        const std::uint16_t* from = x_.bf16 + (first_row + row) * stride_ + b * kQuantBlock;
        multiply_group(work_, panels, count, from, stride_, shape, b == 0, work_.acc + row);
        if (b + count == blocks) store(panel, panels, first_row, row, size);
      }
    }
  }

 private:
  void store(int panel, int panels, int first_row, int row, int rows) {
    for (int t = row; t < row + rows; ++t) {
      float* to = out_ + static_cast<std::size_t>(first_row + t) * out_stride_;
      for (int p = 0; p < panels; ++p) {
        store_lanes(Simd::load(work_.acc[t] + p * kPanelRows), lanes_of(w_, panel + p), mode_,
                    to + (panel + p) * kPanelRows);
      }
    }
  }

  const PanelMatrix& w_;
  const ActivationRows& x_;
  const std::ptrdiff_t stride_;
  float* const out_;
  const std::size_t out_stride_;
  const OutputMode mode_;
  GroupShape configured_;
  Work work_;
};

}  // namespace

void quantize_bf16(const ActivationRows& x, int row_begin, int row_end) {
  const std::ptrdiff_t stride = bf16_stride(x.cols);
  const int whole = x.cols / kQuantBlock * kQuantBlock;
  for (std::ptrdiff_t row = row_begin; row < row_end; ++row) {
    const float* from = x.f32 + row * x.cols;
    std::uint16_t* to = x.bf16 + row * stride;
    for (int c = 0; c < whole; c += kQuantBlock) _mm512_storeu_si512(to + c, rounded_row(from + c));
    if (whole == x.cols) continue;
    float last[kQuantBlock] = {};
    std::memcpy(last, from + whole, static_cast<std::size_t>(x.cols - whole) * sizeof(float));
    _mm512_storeu_si512(to + whole, rounded_row(last));
  }
}

void matmul_bf16(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode) {
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  if (x.rows == 0 || panel_begin == panel_end) return;
  Product product(w, x, out, out_stride, mode);
  for (int first = 0; first < x.rows; first += kMostRows) {
    const int rows = at_most(kMostRows, x.rows - first);
    for (int panel = panel_begin; panel < panel_end; panel += kStripePanels) {
      product.run_stripe(panel, at_most(kStripePanels, panel_end - panel), first, rows);
    }
  }
  _tile_release();
}

}  // namespace turnstile::kernels::amx
