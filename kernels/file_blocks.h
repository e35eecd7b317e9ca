// file_blocks.h: the weight formats of model files, one row at a time.
//
// A file row is a sequence of blocks; a block is a few half-precision numbers and small integers.
// Whatever a file says, 32 consecutive columns of one row become a QuantBlock, the common form from
// which panels (panel.h) are packed and values computed:
//
//   file      columns  bytes  value of a weight                      QuantBlock of panel type
//   Q8_0           32     34  d * q                                  Q8_0
//   IQ4_NL         32     18  d * table[n]                           Q8_0, exact
//   Q4_0, Q5_0     32  18,22  d * (n - 8), d * (n - 16)              Q4_0, Q5_0
//   Q4_1, Q5_1     32  20,24  d * n + m                              Q4_1, Q5_1
//   Q4_K, Q5_K    256 144,176 d * s * n - e * t, s and t of 32       Q4_K, Q5_K
//   Q6_K          256    210  d * s * (n - 32), s of 16              Q6_K
//   Q3_K          256    110  d * (s - 32) * (n - 4), s of 16        Q6_K, exact
//   Q2_K          256     84  d * s * n - e * t, s and t of 16       Q8_0, requantised (see below)
//   F32, F16, BF16  1  4,2,2  itself                                 panels of the same type
//
// Q2_K alone does not keep its values: no other format has minima of 16 columns. Its 32 columns get
// one scale, largest/127, so a weight moves by at most 1/254 of the largest of its block (and by
// the rounding of that scale to half precision): the format's own steps are 1/3 of its range.
//
// Source of the block formats: the GGUF specification, ggml/docs/gguf.md, and the structures of
// ggml-common.h; recorded values of independent readers are in tests/golden/quant_blocks.json.
// Cost: packing and tests only; nothing here runs in a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace turnstile::kernels {

// How a matrix lies in memory, see panel.h.
enum class WeightType : std::uint8_t {
  F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K
};

// How a file stores it.
enum class FileType : std::uint8_t {
  F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, Q2_K, Q3_K, IQ4_NL
};

inline constexpr int kQuantBlock = 32;    // columns that share a scale, in weights and activations
inline constexpr int kSuperBlock = 256;   // columns that share the halves of a K format

// 32 columns of one row. `part` holds the integer scale and minimum of Q4_K and Q5_K, and for
// Q6_K the two signed scales of columns 0..15 and 16..31.
struct QuantBlock {
  std::uint16_t scale = 0;    // f16
  std::uint16_t minimum = 0;  // f16
  std::array<std::uint8_t, 2> part{};
  std::array<std::uint8_t, kQuantBlock> weight{};  // unsigned; the zero point is the type's
};

// Columns of a block and its bytes; a row is whole blocks.
struct FileFormat {
  int columns;
  std::size_t bytes;
};
FileFormat file_format(FileType type);

// The panel type that holds a file type's weights.
WeightType panel_type(FileType type);

bool is_quantised(WeightType type);

// Bytes of one row of `cols` values. REQUIRES: cols is a multiple of the format's columns.
std::size_t file_row_bytes(FileType type, int cols);

// Columns [32 * block, 32 * block + 32) of a row of a quantised type.
QuantBlock read_quant_block(FileType type, const std::byte* file_row, int block);

// The 32 values of a block of a quantised panel type.
void quant_block_values(WeightType type, const QuantBlock& block, float* out);

// Writes one file row as floats, bit for bit what the format's definition gives.
void dequantize_file_row(FileType type, const std::byte* file_row, int cols, float* out);

}  // namespace turnstile::kernels
