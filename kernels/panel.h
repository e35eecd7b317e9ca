// panel.h: a weight matrix cut into panels of 16 output rows.
//
// A matrix (rows, cols) multiplies activations of length cols and gives rows outputs. The kernels
// read it panel by panel: a panel is 16 consecutive rows, so that one 64-byte vector holds the
// same four columns of all 16 rows and one broadcast of four activations feeds them all.
//
//   panel g = rows 16g .. 16g+15          vector j of a block: 16 rows x 4 columns
//   +---------+---------+-----           +----+----+----+-- ... --+-----+
//   | block 0 | block 1 | ...            | r0 | r1 | r2 |         | r15 |   each cell 4 bytes:
//   +---------+---------+-----           +----+----+----+-- ... --+-----+   columns 4j .. 4j+3
//
// A block is 32 columns of 16 rows: a head, then the weights, unsigned.
//   nibbles, 4 vectors   low nibbles are column quads 0..3, high ones 4..7
//   bytes, 8 vectors     one for each column quad
//
//   type         head of a block                            weights   value of a weight
//   Q8_0         16 f16 scales d                            bytes     d*(u-128)
//   Q4_0         16 f16 scales d                            nibbles   d*(u-8)
//   Q5_0         16 f16 scales d                            bytes     d*(u-16)
//   Q4_1, Q5_1   16 f16 scales d, 16 f16 minima m           nibbles, bytes    d*u + m
//   Q4_K, Q5_K   16 u8 scales s, 16 u8 minima t             nibbles, bytes    (d*s)*u - e*t
//   Q6_K         16 i8 scales of columns 0..15, 16 of 16..31   bytes  (d*s)*(u-32)
//
// The K types have one head more for 8 blocks (256 columns): 16 f16 d, 16 f16 e (0 for Q6_K).
//
//   | d, e | block 0 | block 1 | .. | block 7 | d, e | block 8 | ..
//
// F32, F16 and BF16 panels have no blocks: column after column, 16 values each.
// Rows past the end of the matrix (the last panel) are zero, scales included.
//
// Ownership: PanelMatrix is a view; the model's weight arena owns the bytes (64-byte aligned).
// File formats and which panel type holds which: file_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/file_blocks.h"

namespace turnstile::kernels {

inline constexpr int kPanelRows = 16;
inline constexpr int kSuperHeadBytes = 64;                             // of the K types
inline constexpr int kMaxColumns = 65'536;  // of a quantised matrix: what every workspace holds
inline constexpr int kBlocksPerSuper = kSuperBlock / kQuantBlock;

// Where block b of a panel of a quantised type begins, and its parts.
struct PanelFormat {
  int head_bytes;    // of a block
  int weight_bytes;  // of a block: 256 (nibbles) or 512 (bytes)
  bool super;        // a K type

  int block_bytes() const { return head_bytes + weight_bytes; }
  std::size_t super_offset(int block) const {
    return static_cast<std::size_t>(block / kBlocksPerSuper) *
           static_cast<std::size_t>(kSuperHeadBytes + kBlocksPerSuper * block_bytes());
  }
  std::size_t block_offset(int block) const {
    if (!super) return static_cast<std::size_t>(block) * static_cast<std::size_t>(block_bytes());
    return super_offset(block) + kSuperHeadBytes +
           static_cast<std::size_t>(block % kBlocksPerSuper) *
               static_cast<std::size_t>(block_bytes());
  }
};
PanelFormat panel_format(WeightType type);

struct PanelMatrix {
  WeightType type = WeightType::F32;
  int rows = 0;  // outputs
  // Inputs; quantised: at most kMaxColumns, a multiple of 32, and of 256 for the K types.
  int cols = 0;
  const std::byte* data = nullptr;

  int panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

// Bytes of all panels of a matrix; a multiple of 32.
std::size_t panel_bytes(WeightType type, int rows, int cols);

// Rearranges panels [panel_begin, panel_end) of a file tensor (row-major GGUF blocks) into `out`,
// which holds panel_bytes(panel_type(type), rows, cols) bytes and starts at panel 0.
void pack_panels(FileType type, const std::byte* file_rows, int rows, int cols, int panel_begin,
                 int panel_end, std::byte* out);

// The 32 columns of block `block` of row `row`.
QuantBlock panel_block(const PanelMatrix& matrix, int row, int block);

// Writes row `row` as `matrix.cols` floats: the embedding lookup, and what tests compare.
void dequantize_row(const PanelMatrix& matrix, int row, float* out);

}  // namespace turnstile::kernels
