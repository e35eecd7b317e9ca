// Products on AMX tiles: a panel's block is a tile as it lies in memory.
//
//   A: 16 rows of activations x 32 columns        B: 8 column quads x (16 outputs x 4 columns)
//   +--------------------------+                  +----+----+-- .. --+-----+
//   | row 0: 32 signed bytes   |                  | r0 | r1 |        | r15 |  quad 0
//   | ...                      |        x         | ...                    |
//   | row 15                   |                  |                        |  quad 7
//   +--------------------------+                  +----+----+-- .. --+-----+
//                     C: 16 rows x 16 outputs, the exact integer sums of this block
//
// The sums of a block leave the tile, are scaled and added in the order of all levels, so the bits
// are theirs. That conversion costs about what the tiles save: a prototype on a Xeon had 1.13 times
// the speed of AVX-512 at 16 rows, 1.16 at 32, and at most 0.92 at 128. So products of 16 to 64
// rows come here; the others, and Q6_K, whose scales are 16 columns wide, go to the AVX-512 level.
//
// Reference: the Scalar level, bit for bit; edges of rows, outputs, segments of 24 blocks and
// widths that fit the workspace: tests/kernels/tile_edges_test.cpp.
// Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3 (AMX).
#include "kernels/cpu/amx.h"

#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512.h"

namespace turnstile::kernels::amx {
namespace {

#include "kernels/cpu/avx512_simd.inc"
#include "kernels/cpu/vnni_blocks.inc"
#include "kernels/cpu/amx_tiles.inc"

constexpr int kLeastRows = 16;
constexpr int kMostRows = 64;
constexpr int kSegmentBlocks = 24;  // blocks whose nibbles are expanded at once: 12 KiB

// Tiles 0 and 1 are sums, 2 and 3 activations, 4 and 5 weights: two of each kind, so that a block's
// products start before the last ones are read.
void configure_product() {
  constexpr TileShape kSums{kTileRows, kPanelRows * sizeof(std::int32_t)};
  constexpr TileShape kActivations{kTileRows, kQuantBlock};
  constexpr TileShape kWeights{kQuads, 4 * kPanelRows};
  configure_tiles({kSums, kSums, kActivations, kActivations, kWeights, kWeights, {}, {}});
}

// One block of 16 rows of activations; rows that do not exist are zero. `start`: what is added to
// the sums of types with a zero point.
struct alignas(64) TileBlock {
  std::int8_t q[kTileRows][kQuantBlock];
  float scale[kTileRows];
  union {
    float scaled_sum[kTileRows];
    std::int32_t start[kTileRows];
  };
};

template <typename F>
void gather_tile(const ActivationRows& x, int first, int count, TileBlock* tile) {
  const std::ptrdiff_t blocks = x.cols / kQuantBlock;
  for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
    std::memset(static_cast<void*>(tile), 0, sizeof *tile);
    for (int t = 0; t < count; ++t) {
      const std::ptrdiff_t at = (first + t) * blocks + b;
      std::memcpy(tile->q[t], x.q + at * kQuantBlock, kQuantBlock);
      tile->scale[t] = x.scale[at];
      if constexpr (F::kZeroPoint != 0) {
        tile->start[t] = -F::kZeroPoint * x.sum[at];
      } else {
        tile->scaled_sum[t] = x.scaled_sum[at];
      }
    }
  }
}

// The weights of some blocks of a panel as bytes: in place, or nibbles expanded into `bytes`.
template <typename F>
struct Segment {
  alignas(64) std::uint8_t bytes[F::kNibbles ? kSegmentBlocks : 1][kQuads][64];

  void load(const std::uint8_t* panel, std::ptrdiff_t first, int count) {
    if constexpr (F::kNibbles) {
      for (int b = 0; b < count; ++b) {
        const std::uint8_t* weights = block_of<F>(panel, first + b).weights();
        for (int j = 0; j < kQuads; ++j) {
          _mm512_storeu_si512(bytes[b][j], quad_of<F>(weights, j));
        }
      }
    }
  }
  const std::uint8_t* weights(const std::uint8_t* panel, std::ptrdiff_t first, int b) const {
    if constexpr (F::kNibbles) return bytes[b][0];
    return block_of<F>(panel, first + b).weights();
  }
};

using Sums = std::int32_t[kTileRows][kPanelRows];

void issue_even(const TileBlock& tile, const std::uint8_t* weights, Sums& sums) {
  _tile_zero(0);
  _tile_loadd(2, tile.q, kQuantBlock);
  _tile_loadd(4, weights, 64);
  _tile_dpbsud(0, 2, 4);
  _tile_stored(0, sums, 64);
}

void issue_odd(const TileBlock& tile, const std::uint8_t* weights, Sums& sums) {
  _tile_zero(1);
  _tile_loadd(3, tile.q, kQuantBlock);
  _tile_loadd(5, weights, 64);
  _tile_dpbsud(1, 3, 5);
  _tile_stored(1, sums, 64);
}

// acc += `count` blocks of a panel from block `first` on, times one tile of activations. `next`,
// where it is given, is the same place of the next panel, to be fetched meanwhile.
template <typename F>
[[gnu::noinline]] void multiply_tile(const Segment<F>& segment, const std::uint8_t* panel,
                                     std::ptrdiff_t first, int count, const TileBlock* tile,
                                     const std::uint8_t* next, float (*acc)[kPanelRows]) {
  alignas(64) Sums sums[2];
  Simd::Floats total[kTileRows];
#pragma GCC unroll 16
  for (int t = 0; t < kTileRows; ++t) total[t] = Simd::load(acc[t]);
  const auto issue = [&](int b) {
    const std::uint8_t* weights = segment.weights(panel, first, b);
    if (b % 2 == 0) {
      issue_even(tile[b], weights, sums[0]);
    } else {
      issue_odd(tile[b], weights, sums[1]);
    }
  };
  issue(0);
  for (int b = 0; b < count; ++b) {
    if (b + 1 < count) issue(b + 1);
    for (std::ptrdiff_t line = 0; next != nullptr && line < F::kBlockBytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(next + b * F::kBlockBytes + line), _MM_HINT_T0);
    }
    const Block<F> block = block_of<F>(panel, first + b);
    const Simd::Floats scale = scale_of<F>(block);
    const Simd::Floats minimum = minimum_of<F>(block, scale);
    const Sums& sum = sums[b % 2];
#pragma GCC unroll 16
    for (int t = 0; t < kTileRows; ++t) {
      Simd::Ints exact = _mm512_loadu_si512(sum[t]);
      if constexpr (F::kZeroPoint != 0) {
        exact = Simd::add_ints(exact, Simd::set1_int(tile[b].start[t]));
      }
      total[t] = accumulate<F>(total[t], exact, scale, minimum, tile[b].scale[t],
                               tile[b].scaled_sum[t]);
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTileRows; ++t) Simd::store(acc[t], total[t]);
}

template <typename F>
struct Work {
  alignas(64) std::byte tiles[kGroupBytes];
  Segment<F> segment;
  alignas(64) float acc[kMostRows][kPanelRows];

  TileBlock* tile_at(int tile, std::ptrdiff_t blocks) {
    return reinterpret_cast<TileBlock*>(tiles) + tile * blocks;
  }

  // acc = one panel times the gathered tiles.
  void multiply(const std::uint8_t* panel, std::ptrdiff_t blocks, int tile_count) {
    std::memset(acc, 0, sizeof acc);
    for (std::ptrdiff_t b = 0; b < blocks; b += kSegmentBlocks) {
      const int count =
          blocks - b < kSegmentBlocks ? static_cast<int>(blocks - b) : kSegmentBlocks;
      segment.load(panel, b, count);
      const std::uint8_t* next = block_of<F>(panel + panel_stride<F>(blocks), b).at;
      for (int i = 0; i < tile_count; ++i) {
        multiply_tile<F>(segment, panel, b, count, tile_at(i, blocks) + b,
                         i == 0 ? next : nullptr, acc + i * kTileRows);
      }
    }
  }
};

template <typename F>
void quantised(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
               float* out, std::size_t out_stride, OutputMode mode) {
  const std::ptrdiff_t blocks = w.cols / kQuantBlock;
  const auto fitting = static_cast<int>(kGroupBytes / (blocks * std::ptrdiff_t{sizeof(TileBlock)}));
  const int group = kTileRows * fitting < kMostRows ? kTileRows * fitting : kMostRows;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.data);
  Work<F> work;
  configure_product();
  for (int first = 0; first < x.rows; first += group) {
    const int count = x.rows - first < group ? x.rows - first : group;
    const int tile_count = (count + kTileRows - 1) / kTileRows;
    for (int i = 0; i < tile_count; ++i) {
      const int rows = count - i * kTileRows < kTileRows ? count - i * kTileRows : kTileRows;
      gather_tile<F>(x, first + i * kTileRows, rows, work.tile_at(i, blocks));
    }
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      work.multiply(bytes + panel * panel_stride<F>(blocks), blocks, tile_count);
      for (int t = 0; t < count; ++t) {
        store_lanes(Simd::load(work.acc[t]), lanes_of(w, panel), mode,
                    out + static_cast<std::size_t>(first + t) * out_stride + panel * kPanelRows);
      }
    }
  }
  _tile_release();
}

bool tiles_help(const PanelMatrix& w, int rows) {
  const bool fits = w.cols / kQuantBlock * static_cast<std::ptrdiff_t>(sizeof(TileBlock)) <=
                    kGroupBytes;
  return rows >= kLeastRows && rows <= kMostRows && fits && w.type != WeightType::Q6_K &&
         w.type != WeightType::F32 && w.type != WeightType::F16 && w.type != WeightType::BF16;
}

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  if (!tiles_help(w, x.rows) || panel_begin == panel_end) {
    return avx512::matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
  assert(w.cols == x.cols && "the activations are as long as the matrix is wide");
  assert(panel_begin >= 0 && panel_end <= w.panel_count() && "panels of this matrix");
  const auto run = [&](auto format) {
    quantised<decltype(format)>(w, x, panel_begin, panel_end, out, out_stride, mode);
  };
  switch (w.type) {
    case WeightType::Q8_0: return run(Q8_0{});
    case WeightType::Q4_0: return run(Q4_0{});
    case WeightType::Q4_1: return run(Q4_1{});
    case WeightType::Q5_0: return run(Q5_0{});
    case WeightType::Q5_1: return run(Q5_1{});
    case WeightType::Q4_K: return run(Q4_K{});
    case WeightType::Q5_K: return run(Q5_K{});
    default: assert(false && "a type that tiles help");
  }
}

}  // namespace turnstile::kernels::amx
