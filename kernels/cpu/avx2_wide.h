// avx2_wide.h: how the AVX2 level arranges products of three rows of activations and more. Only
// translation units of that level include it; everything is local to them (tables.h says why).
//
// A panel is taken in segments that stay in L1. The weights of a segment are expanded once, to what
// the multiplications at hand read, and used by all tiles of rows. The first tile does it on its
// way: it multiplies what it expands while the copies for the others leave by ports that products
// do not use. Tiles read their rows where they lie (activations.h), so that a call of few panels,
// which is what one item of a step is, pays nothing for its rows before it multiplies them.
//
//   for each group of at most kGroupRows rows
//     prepare what the kernel wants to know of its blocks, if anything
//     for each panel
//       for each segment: for each tile: acc[rows of the tile] += segment * tile
//       store acc
//
// A tile in registers, 8 outputs each:       row 0   sum  sum
//                                             ..      ..   ..       6 rows: 12 sums, 2 weights,
//                                            row 5   sum  sum       1 activation, 1 product
//
// A Kernel says what one segment times one tile is:
//
//   Format                            the panel type (avx2_blocks.h)
//   WideBlock                         one block of a segment
//   PreparedBlock                     of a row's block; NothingPrepared: rows are read as they are
//   prepare(const std::int8_t* q, PreparedBlock&)
//   tile<Rows, Expands>(Segment<Kernel>, TileRows<PreparedBlock>, NextPanel, acc)    adds to acc
#pragma once

#include <algorithm>
#include <cassert>
#include <type_traits>
#include <utility>

#include "kernels/cpu/avx2_blocks.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kTileRows = 6;
constexpr int kGroupRows = 128;       // activation rows that share one expansion of a panel
constexpr int kPreparedBytes = 192 * 1024;  // of a group, to stay in L2
constexpr int kSegmentBytes = 14336;  // of expanded blocks, to stay in L1 beside the activations

void store(void* to, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(to), v); }
__m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

// The same block of up to six rows that lie `stride` bytes apart. Two pointers and the stride reach
// all of them within the addresses of instructions; a pointer for each row would be a fifth of all
// instructions.
class RowPointers {
 public:
  RowPointers(const void* first, std::ptrdiff_t stride)
      : low_(static_cast<const std::byte*>(first)), high_(low_ + 3 * stride) {}

  // REQUIRES: the stride of the constructor, hidden from the compiler by the caller.
  const std::byte* at(int row, std::ptrdiff_t stride) const {
    return row < 3 ? low_ + row * stride : high_ + (row - 3) * stride;
  }
  void advance(std::ptrdiff_t bytes) {
    low_ += bytes;
    high_ += bytes;
    // Otherwise the compiler makes them six pointers again.
    __asm__("" : "+r"(low_), "+r"(high_));
  }

 private:
  const std::byte* low_;
  const std::byte* high_;
};

inline __m256 float_at(const std::byte* from) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(from));
}

inline __m256i four_bytes_at(const std::byte* from) {
  std::int32_t four = 0;
  std::memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}

// Where a panel's outputs go: those of its first row, and from a row to the next.
struct PanelOutputs {
  float* first;
  std::size_t stride;

  // Fetches what will be stored for rows [row, row + count): the residual that a product is added
  // to was written by another phase and is no longer near.
  void fetch(int row, int count) const {
    for (int t = row; t < row + count; ++t) {
      _mm_prefetch(reinterpret_cast<const char*>(first + static_cast<std::size_t>(t) * stride),
                   _MM_HINT_T0);
    }
  }
};

struct NothingPrepared {};

// Rows of a tile from some block on, and the blocks of a whole row.
template <typename PreparedBlock>
struct TileRows {
  const std::int8_t* q;
  const float* scale;
  const std::int32_t* sum;
  const float* scaled_sum;
  const PreparedBlock* prepared;
  std::ptrdiff_t blocks;

  TileRows from(std::ptrdiff_t row, std::ptrdiff_t block) const {
    const std::ptrdiff_t at = row * blocks + block;
    return {q + at * kQuantBlock, scale + at, sum + at, scaled_sum + at, prepared + at, blocks};
  }
};

// The lines of the next panel that one tile fetches, some for each of its blocks: all tiles share
// them, because the first one alone would ask for more than memory gives.
struct NextPanel {
  const std::uint8_t* at;
  int lines_a_block;

  // `Block`: the lines of a block. Few tiles fetch many lines each: without a loop, then.
  template <int Block>
  [[gnu::always_inline]] void fetch_lines() {
    if (lines_a_block == Block) return fetch<Block>();
    if (lines_a_block == (Block + 1) / 2) return fetch<(Block + 1) / 2>();
    for (int line = 0; line < lines_a_block; ++line) fetch<1>();
  }
  template <int Lines>
  [[gnu::always_inline]] void fetch() {
#pragma GCC unroll 16
    for (int line = 0; line < Lines; ++line) {
      _mm_prefetch(reinterpret_cast<const char*>(at + 64 * line), _MM_HINT_T0);
    }
    at += 64 * Lines;
  }
};

// Blocks [first, first + count) of a panel, as they are and where their expanded weights are kept.
// A tile that Expands reads the former and writes the latter; the others read the latter.
template <typename Kernel>
struct Segment {
  const std::uint8_t* panel;
  std::ptrdiff_t first;
  int count;
  typename Kernel::WideBlock* wide;
};

// How `count` rows are cut into tiles of nearly equal size: 8 rows are 4 + 4, not 6 + 2.
struct Tiling {
  int count;
  int tiles;
  int rows_of(int tile) const { return count * (tile + 1) / tiles - count * tile / tiles; }
};

// Calls visit(std::integral_constant<int, rows of the tile>, first row) for each tile.
template <typename Visit>
void for_each_tile(Tiling tiling, Visit visit) {
  for (int i = 0, row = 0; i < tiling.tiles; ++i) {
    const int rows = tiling.rows_of(i);
    [&]<int... Rows>(std::integer_sequence<int, Rows...>) {
      ((rows == Rows + 1 ? visit(std::integral_constant<int, Rows + 1>{}, row) : void()), ...);
    }(std::make_integer_sequence<int, kTileRows>{});
    row += rows;
  }
}

template <typename Kernel>
struct WideWork {
  using F = typename Kernel::Format;
  using Prepared = typename Kernel::PreparedBlock;
  static constexpr bool kPrepares = !std::is_same_v<Prepared, NothingPrepared>;
  static constexpr std::ptrdiff_t kPreparedBlocks =
      kPrepares ? kPreparedBytes / static_cast<std::ptrdiff_t>(sizeof(Prepared)) : 1;
  static_assert(!kPrepares || kPreparedBlocks >= kMaxColumns / kQuantBlock, "a row fits");
  static constexpr int kSegmentBlocks =
      kSegmentBytes / static_cast<int>(sizeof(typename Kernel::WideBlock));

  alignas(64) Prepared prepared[kPreparedBlocks];
  typename Kernel::WideBlock segment[kSegmentBlocks];
  alignas(32) float acc[kGroupRows][kPanelRows];

  static int group_rows(std::ptrdiff_t blocks) {
    if constexpr (!kPrepares) return kGroupRows;
    assert(blocks <= kPreparedBlocks && "a matrix has at most kMaxColumns");
    return static_cast<int>(std::min<std::ptrdiff_t>(kGroupRows, kPreparedBlocks / blocks));
  }

  TileRows<Prepared> prepare(const ActivationRows& x, int first, int count) {
    const std::ptrdiff_t blocks = x.cols / kQuantBlock;
    const std::ptrdiff_t at = first * blocks;
    if constexpr (kPrepares) {
      for (std::ptrdiff_t b = 0; b < count * blocks; ++b) {
        Kernel::prepare(x.q + (at + b) * kQuantBlock, prepared[b]);
      }
    }
    return {x.q + at * kQuantBlock, x.scale + at, x.sum + at, x.scaled_sum + at, prepared, blocks};
  }

  // acc = one panel times `count` rows; meanwhile its place in `out` is fetched.
  void multiply(const std::uint8_t* panel, const TileRows<Prepared>& rows, int count,
                PanelOutputs out) {
    const std::ptrdiff_t blocks = rows.blocks;
    const std::uint8_t* next_panel = panel + panel_stride<F>(blocks);
    const Tiling tiling{count, (count + kTileRows - 1) / kTileRows};
    std::memset(acc, 0, sizeof acc[0] * static_cast<std::size_t>(count));
    for (std::ptrdiff_t b = 0; b < blocks; b += kSegmentBlocks) {
      const int width =
          blocks - b < kSegmentBlocks ? static_cast<int>(blocks - b) : kSegmentBlocks;
      const int lines = width * static_cast<int>(F::kBlockBytes) / 64;
      const int calls = tiling.tiles * width;
      NextPanel next{block_of<F>(next_panel, b).at, (lines + calls - 1) / calls};
      const std::uint8_t* const end = next.at + 64 * lines;
      for_each_tile(tiling, [&]<int Rows>(std::integral_constant<int, Rows>, int row) {
        const Segment<Kernel> at{panel, b, width, segment};
        if (b == 0) out.fetch(row, Rows);
        if (row == 0) {
          Kernel::template tile<Rows, true>(at, rows.from(row, b), next, acc + row);
        } else {
          Kernel::template tile<Rows, false>(at, rows.from(row, b), next, acc + row);
        }
        next.at += 64 * width * next.lines_a_block;
        if (next.at >= end) next.lines_a_block = 0;
      });
    }
  }
};

template <typename Kernel>
void wide_products(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                   float* out, std::size_t out_stride, OutputMode mode) {
  using Work = WideWork<Kernel>;
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  const int group = Work::group_rows(blocks);
  const Tiling groups{x.rows, (x.rows + group - 1) / group};
  Work work;
  for (int g = 0, first = 0; g < groups.tiles; first += groups.rows_of(g), ++g) {
    const int count = groups.rows_of(g);
    const auto rows = work.prepare(x, first, count);
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      const int row = panel * kPanelRows;
      const PanelOutputs place{out + static_cast<std::size_t>(first) * out_stride + row,
                               out_stride};
      work.multiply(bytes + panel * panel_stride<typename Kernel::Format>(blocks), rows, count,
                    place);
      const int lanes = w.rows - row < kPanelRows ? w.rows - row : kPanelRows;
      for (int t = 0; t < count; ++t) {
        store_lanes(work.acc[t], lanes, mode,
                    place.first + static_cast<std::size_t>(t) * out_stride);
      }
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels::avx2
