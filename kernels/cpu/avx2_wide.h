// avx2_wide.h: how the AVX2 level arranges products of three rows of activations and more. Only
// translation units of that level include it; everything is local to them (tables.h says why).
//
// A panel is taken in segments that stay in L1. The weights of a segment are expanded once, to what
// the multiplications at hand read, and used by all tiles of rows; the rows of a group are gathered
// once for all panels and stay in L2.
//
//   for each group of at most kGroupTokens rows
//     gather its tiles, block after block
//     for each panel
//       for each segment: expand it; for each tile: acc[rows of the tile] += segment * tile
//       store acc
//
// A Kernel says what one segment times one tile is:
//
//   Format                            the panel type (avx2_blocks.h)
//   kMaxTokens                        rows of the largest tile
//   WideBlock                         one block of a segment
//   TileBlock<Tokens>                 one block of a tile; Tokens times as large as TileBlock<1>
//   expand(Block<Format>, WideBlock&)
//   gather<Tokens>(x, first row, TileBlock<Tokens>*)
//   tile<Tokens>(WideBlock*, blocks, TileBlock<Tokens>*, NextPanel, acc)    adds to acc
#pragma once

#include <cassert>
#include <utility>

#include "kernels/cpu/avx2_blocks.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kGroupTokens = 64;      // activation rows that share one expansion of a panel
constexpr std::ptrdiff_t kGroupBytes = 128 * 1024;  // of their gathered blocks, to stay in L2
constexpr int kSegmentBytes = 14336;  // of expanded blocks, to stay in L1 beside the activations

void store(void* to, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(to), v); }
__m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

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

// How `count` rows are cut into tiles of nearly equal size: 8 rows are 4 + 4, not 6 + 2.
struct Tiling {
  int count;
  int tiles;
  int rows_of(int tile) const { return count * (tile + 1) / tiles - count * tile / tiles; }
};

// Calls visit(std::integral_constant<int, rows of the tile>, first row) for each tile.
template <int MaxTokens, typename Visit>
void for_each_tile(Tiling tiling, Visit visit) {
  for (int i = 0, t = 0; i < tiling.tiles; ++i) {
    const int rows = tiling.rows_of(i);
    [&]<int... Tokens>(std::integer_sequence<int, Tokens...>) {
      ((rows == Tokens + 1 ? visit(std::integral_constant<int, Tokens + 1>{}, t) : void()), ...);
    }(std::make_integer_sequence<int, MaxTokens>{});
    t += rows;
  }
}

template <typename Kernel>
struct WideWork {
  using F = typename Kernel::Format;
  static constexpr std::ptrdiff_t kTokenBlockBytes = sizeof(typename Kernel::template TileBlock<1>);
  static constexpr int kSegmentBlocks =
      kSegmentBytes / static_cast<int>(sizeof(typename Kernel::WideBlock));

  alignas(64) std::byte tiles[kGroupBytes];
  typename Kernel::WideBlock segment[kSegmentBlocks];
  alignas(32) float acc[kGroupTokens][kPanelRows];

  template <int Tokens>
  auto* tile_at(int row, std::ptrdiff_t blocks) {
    return reinterpret_cast<typename Kernel::template TileBlock<Tokens>*>(
        tiles + row * blocks * kTokenBlockBytes);
  }

  void gather(const ActivationRows& x, int first, Tiling tiling) {
    for_each_tile<Kernel::kMaxTokens>(
        tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
          Kernel::template gather<Tokens>(x, first + t,
                                          tile_at<Tokens>(t, x.cols / kQuantBlock));
        });
  }

  // acc = one panel times the gathered rows.
  void multiply(const std::uint8_t* panel, std::ptrdiff_t blocks, Tiling tiling) {
    const std::uint8_t* next_panel = panel + panel_stride<F>(blocks);
    for (int t = 0; t < tiling.count; ++t) {
      for (int h = 0; h < kHalves; ++h) _mm256_store_ps(acc[t] + 8 * h, _mm256_setzero_ps());
    }
    for (std::ptrdiff_t b = 0; b < blocks; b += kSegmentBlocks) {
      const int width =
          blocks - b < kSegmentBlocks ? static_cast<int>(blocks - b) : kSegmentBlocks;
      for (int i = 0; i < width; ++i) Kernel::expand(block_of<F>(panel, b + i), segment[i]);
      const int lines = width * static_cast<int>(F::kBlockBytes) / 64;
      const int calls = tiling.tiles * width;
      NextPanel next{block_of<F>(next_panel, b).at, (lines + calls - 1) / calls};
      const std::uint8_t* const end = next.at + 64 * lines;
      for_each_tile<Kernel::kMaxTokens>(
          tiling, [&]<int Tokens>(std::integral_constant<int, Tokens>, int t) {
            Kernel::template tile<Tokens>(segment, width, tile_at<Tokens>(t, blocks) + b,
                                          next, acc + t);
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
  const int fitting = static_cast<int>(kGroupBytes / (blocks * Work::kTokenBlockBytes));
  assert(fitting >= 1 && "a row fits the workspace");
  const int group = fitting < kGroupTokens ? fitting : kGroupTokens;
  const Tiling groups{x.rows, (x.rows + group - 1) / group};
  Work work;
  for (int g = 0, first = 0; g < groups.tiles; first += groups.rows_of(g), ++g) {
    const int count = groups.rows_of(g);
    const Tiling tiling{count, (count + Kernel::kMaxTokens - 1) / Kernel::kMaxTokens};
    work.gather(x, first, tiling);
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      work.multiply(bytes + panel * panel_stride<typename Kernel::Format>(blocks), blocks, tiling);
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
}  // namespace turnstile::kernels::avx2
