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
// Layout of one block of 32 columns and 16 rows (all panels of a matrix follow one another):
//   Q8_0   16 f16 scales, then 8 vectors of 64 bytes, each byte the weight XOR 0x80 (unsigned)
//   Q4_0   16 f16 scales, then 4 vectors; low nibbles are column quads 0..3, high ones 4..7
//   Q4_1   16 f16 scales, 16 f16 minima, then 4 vectors of nibbles as in Q4_0
// F16 and F32 panels have no blocks: column after column, 16 values each.
// Rows past the end of the matrix (the last panel) are zero, scales included.
//
// Value of a weight: Q8_0 d*(u-128); Q4_0 d*(u-8); Q4_1 d*u + m.
//
// Ownership: PanelMatrix is a view; the model's weight arena owns the bytes (64-byte aligned).
// Source of the block formats: the GGUF specification, ggml/docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::kernels {

enum class WeightType : std::uint8_t { F32, F16, Q8_0, Q4_0, Q4_1 };

inline constexpr int kPanelRows = 16;
inline constexpr int kQuantBlock = 32;  // columns that share a scale, in weights and activations

struct PanelMatrix {
  WeightType type = WeightType::F32;
  int rows = 0;  // outputs
  int cols = 0;  // inputs; a multiple of 32 for the quantised types
  const std::byte* data = nullptr;

  int panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

// Bytes of the rows of a file tensor: `cols` values of `type`, row after row without gaps.
std::size_t file_row_bytes(WeightType type, int cols);

// Bytes of all panels of a matrix; a multiple of 32.
std::size_t panel_bytes(WeightType type, int rows, int cols);

// Rearranges panels [panel_begin, panel_end) of a file tensor (row-major GGUF blocks) into `out`,
// which holds panel_bytes(type, rows, cols) bytes and starts at panel 0.
void pack_panels(WeightType type, const std::byte* file_rows, int rows, int cols, int panel_begin,
                 int panel_end, std::byte* out);

// Writes row `row` as `matrix.cols` floats: the embedding lookup, and what tests compare.
void dequantize_row(const PanelMatrix& matrix, int row, float* out);

// Writes one file row as floats, bit for bit what the format's definition gives.
void dequantize_file_row(WeightType type, const std::byte* file_row, int cols, float* out);

}  // namespace turnstile::kernels
