#include "kernels/panel.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/half_float.h"

namespace turnstile::kernels {
namespace {

constexpr std::size_t kCellBytes = 4;                           // four columns of one row
constexpr std::size_t kVectorBytes = kPanelRows * kCellBytes;   // one column quad of 16 rows
constexpr std::size_t kHalfBytes = 2;

// How a quantised type is split: `halves` f16 values (scale, then minimum) and then the weights,
// both in one file block of one row and in one panel block of 16 rows.
struct BlockFormat {
  std::size_t halves;
  std::size_t weight_bytes;  // of one row

  std::size_t file_bytes() const { return halves * kHalfBytes + weight_bytes; }
  std::size_t panel_bytes() const { return file_bytes() * kPanelRows; }
};

bool is_quantised(WeightType type) {
  return type == WeightType::Q8_0 || type == WeightType::Q4_0 || type == WeightType::Q4_1;
}

BlockFormat block_format(WeightType type) {
  switch (type) {
    case WeightType::Q8_0: return {1, 32};
    case WeightType::Q4_0: return {1, 16};
    case WeightType::Q4_1: return {2, 16};
    case WeightType::F32:
    case WeightType::F16: break;
  }
  assert(false && "a float type has no blocks");
  return {0, 0};
}

std::size_t element_bytes(WeightType type) { return type == WeightType::F16 ? 2 : 4; }

std::uint16_t load_half(const std::byte* from) {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return half;
}

// `weight(c)` gives byte c of the row's weights as the file stores them.
template <typename WeightByte>
void dequantize_block(WeightType type, float scale, float minimum, WeightByte weight, float* out) {
  if (type == WeightType::Q8_0) {
    for (int c = 0; c < kQuantBlock; ++c) {
      out[c] = static_cast<float>(static_cast<std::int8_t>(weight(c))) * scale;
    }
    return;
  }
  for (int c = 0; c < kQuantBlock / 2; ++c) {
    const int low = weight(c) & 15;
    const int high = weight(c) >> 4;
    if (type == WeightType::Q4_0) {
      out[c] = static_cast<float>(low - 8) * scale;
      out[c + kQuantBlock / 2] = static_cast<float>(high - 8) * scale;
    } else {
      out[c] = static_cast<float>(low) * scale + minimum;
      out[c + kQuantBlock / 2] = static_cast<float>(high) * scale + minimum;
    }
  }
}

void pack_quantised_row(const BlockFormat& format, bool flip_sign, const std::byte* file_row,
                        int blocks, int lane, std::byte* panel) {
  for (int b = 0; b < blocks; ++b) {
    const std::byte* in = file_row + static_cast<std::size_t>(b) * format.file_bytes();
    std::byte* out = panel + static_cast<std::size_t>(b) * format.panel_bytes();
    for (std::size_t h = 0; h < format.halves; ++h) {
      std::memcpy(out + (h * kPanelRows + static_cast<std::size_t>(lane)) * kHalfBytes,
                  in + h * kHalfBytes, kHalfBytes);
    }
    in += format.halves * kHalfBytes;
    out += format.halves * kHalfBytes * kPanelRows + static_cast<std::size_t>(lane) * kCellBytes;
    for (std::size_t at = 0; at < format.weight_bytes; at += kCellBytes, out += kVectorBytes) {
      for (std::size_t k = 0; k < kCellBytes; ++k) {
        out[k] = flip_sign ? in[at + k] ^ std::byte{0x80} : in[at + k];
      }
    }
  }
}

}  // namespace

std::size_t file_row_bytes(WeightType type, int cols) {
  assert(cols >= 0 && "a matrix has no negative width");
  if (!is_quantised(type)) return static_cast<std::size_t>(cols) * element_bytes(type);
  assert(cols % kQuantBlock == 0 && "quantised rows are whole blocks");
  return static_cast<std::size_t>(cols / kQuantBlock) * block_format(type).file_bytes();
}

std::size_t panel_bytes(WeightType type, int rows, int cols) {
  const std::size_t panels = static_cast<std::size_t>((rows + kPanelRows - 1) / kPanelRows);
  return panels * kPanelRows * file_row_bytes(type, cols);
}

void pack_panels(WeightType type, const std::byte* file_rows, int rows, int cols, int panel_begin,
                 int panel_end, std::byte* out) {
  const std::size_t row_bytes = file_row_bytes(type, cols);
  const std::size_t one_panel = row_bytes * kPanelRows;
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    std::byte* to = out + static_cast<std::size_t>(panel) * one_panel;
    std::memset(to, 0, one_panel);
    const int lanes = std::min(kPanelRows, rows - panel * kPanelRows);
    for (int lane = 0; lane < lanes; ++lane) {
      const std::byte* from =
          file_rows + static_cast<std::size_t>(panel * kPanelRows + lane) * row_bytes;
      if (is_quantised(type)) {
        pack_quantised_row(block_format(type), type == WeightType::Q8_0, from, cols / kQuantBlock,
                           lane, to);
        continue;
      }
      const std::size_t size = element_bytes(type);
      for (int c = 0; c < cols; ++c) {
        std::memcpy(to + (static_cast<std::size_t>(c) * kPanelRows +
                          static_cast<std::size_t>(lane)) * size,
                    from + static_cast<std::size_t>(c) * size, size);
      }
    }
  }
}

void dequantize_row(const PanelMatrix& matrix, int row, float* out) {
  assert(row >= 0 && row < matrix.rows && "the row is inside the matrix");
  const std::size_t lane = static_cast<std::size_t>(row % kPanelRows);
  const std::byte* panel = matrix.data + static_cast<std::size_t>(row / kPanelRows) * kPanelRows *
                                             file_row_bytes(matrix.type, matrix.cols);
  if (!is_quantised(matrix.type)) {
    for (int c = 0; c < matrix.cols; ++c) {
      const std::size_t index = static_cast<std::size_t>(c) * kPanelRows + lane;
      if (matrix.type == WeightType::F16) {
        out[c] = half_to_float(load_half(panel + index * kHalfBytes));
      } else {
        std::memcpy(out + c, panel + index * sizeof(float), sizeof(float));
      }
    }
    return;
  }
  const BlockFormat format = block_format(matrix.type);
  const unsigned flip = matrix.type == WeightType::Q8_0 ? 0x80U : 0U;
  for (int b = 0; b < matrix.cols / kQuantBlock; ++b) {
    const std::byte* block = panel + static_cast<std::size_t>(b) * format.panel_bytes();
    const float scale = half_to_float(load_half(block + lane * kHalfBytes));
    const float minimum =
        format.halves == 2 ? half_to_float(load_half(block + (kPanelRows + lane) * kHalfBytes))
                           : 0.0F;
    const std::byte* weights =
        block + format.halves * kHalfBytes * kPanelRows + lane * kCellBytes;
    dequantize_block(
        matrix.type, scale, minimum,
        [weights, flip](int c) {
          const std::size_t at = static_cast<std::size_t>(c);
          return std::to_integer<unsigned>(weights[at / kCellBytes * kVectorBytes +
                                                   at % kCellBytes]) ^ flip;
        },
        out + static_cast<std::ptrdiff_t>(b) * kQuantBlock);
  }
}

void dequantize_file_row(WeightType type, const std::byte* file_row, int cols, float* out) {
  if (!is_quantised(type)) {
    for (int c = 0; c < cols; ++c) {
      if (type == WeightType::F16) {
        out[c] = half_to_float(load_half(file_row + static_cast<std::size_t>(c) * kHalfBytes));
      } else {
        std::memcpy(out + c, file_row + static_cast<std::size_t>(c) * sizeof(float), sizeof(float));
      }
    }
    return;
  }
  assert(cols % kQuantBlock == 0 && "quantised rows are whole blocks");
  const BlockFormat format = block_format(type);
  for (int b = 0; b < cols / kQuantBlock; ++b) {
    const std::byte* block = file_row + static_cast<std::size_t>(b) * format.file_bytes();
    const float scale = half_to_float(load_half(block));
    const float minimum = format.halves == 2 ? half_to_float(load_half(block + kHalfBytes)) : 0.0F;
    const std::byte* weights = block + format.halves * kHalfBytes;
    dequantize_block(
        type, scale, minimum,
        [weights](int c) { return std::to_integer<unsigned>(weights[c]); },
        out + static_cast<std::ptrdiff_t>(b) * kQuantBlock);
  }
}

}  // namespace turnstile::kernels
