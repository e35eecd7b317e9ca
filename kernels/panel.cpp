#include "kernels/panel.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "kernels/half_float.h"

namespace turnstile::kernels {
namespace {

constexpr std::size_t kCellBytes = 4;                           // four columns of one row
constexpr std::size_t kVectorBytes = kPanelRows * kCellBytes;   // one column quad of 16 rows
constexpr std::size_t kHalfBytes = 2;
constexpr int kNibbleWeightBytes = kPanelRows * kQuantBlock / 2;

std::size_t element_bytes(WeightType type) { return type == WeightType::F32 ? 4 : 2; }

bool has_two_halves(WeightType type) {
  return type == WeightType::Q4_1 || type == WeightType::Q5_1;
}

void put_half(std::byte* halves, int lane, std::uint16_t half) {
  std::memcpy(halves + static_cast<std::size_t>(lane) * kHalfBytes, &half, kHalfBytes);
}

std::uint16_t get_half(const std::byte* halves, std::size_t lane) {
  std::uint16_t half = 0;
  std::memcpy(&half, halves + lane * kHalfBytes, kHalfBytes);
  return half;
}

// What a row's weights are stored as: nibbles pair columns i and i + 16, bytes are columns.
std::array<std::uint8_t, kQuantBlock> stored_bytes(const QuantBlock& block, bool nibbles) {
  std::array<std::uint8_t, kQuantBlock> stored = block.weight;
  if (!nibbles) return stored;
  for (std::size_t i = 0; i < kQuantBlock / 2; ++i) {
    stored[i] = static_cast<std::uint8_t>(stored[i] | stored[i + kQuantBlock / 2] << 4);
  }
  return stored;
}

void pack_quantised_row(FileType type, const std::byte* file_row, int blocks, int lane,
                        std::byte* panel) {
  const WeightType to = panel_type(type);
  const PanelFormat format = panel_format(to);
  const bool nibbles = format.weight_bytes == kNibbleWeightBytes;
  for (int b = 0; b < blocks; ++b) {
    const QuantBlock block = read_quant_block(type, file_row, b);
    std::byte* out = panel + format.block_offset(b);
    if (format.super) {
      std::byte* super = panel + format.super_offset(b);
      put_half(super, lane, block.scale);
      put_half(super + kPanelRows * kHalfBytes, lane, block.minimum);
      out[lane] = std::byte{block.part[0]};
      out[kPanelRows + lane] = std::byte{block.part[1]};
    } else {
      put_half(out, lane, block.scale);
      if (has_two_halves(to)) put_half(out + kPanelRows * kHalfBytes, lane, block.minimum);
    }
    out += format.head_bytes + static_cast<std::ptrdiff_t>(kCellBytes) * lane;
    const auto stored = stored_bytes(block, nibbles);
    const std::size_t bytes = static_cast<std::size_t>(format.weight_bytes) / kPanelRows;
    for (std::size_t at = 0; at < bytes; at += kCellBytes, out += kVectorBytes) {
      std::memcpy(out, stored.data() + at, kCellBytes);
    }
  }
}

}  // namespace

PanelFormat panel_format(WeightType type) {
  constexpr int kOneHalf = kPanelRows * 2;
  constexpr int kBytes = kPanelRows * kQuantBlock;
  constexpr int kNibbles = kNibbleWeightBytes;
  switch (type) {
    case WeightType::Q8_0:
    case WeightType::Q5_0: return {kOneHalf, kBytes, false};
    case WeightType::Q4_0: return {kOneHalf, kNibbles, false};
    case WeightType::Q4_1: return {2 * kOneHalf, kNibbles, false};
    case WeightType::Q5_1: return {2 * kOneHalf, kBytes, false};
    case WeightType::Q4_K: return {kOneHalf, kNibbles, true};
    case WeightType::Q5_K:
    case WeightType::Q6_K: return {kOneHalf, kBytes, true};
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16: break;
  }
  assert(false && "a float type has no blocks");
  return {0, 0, false};
}

std::size_t panel_bytes(WeightType type, int rows, int cols) {
  assert(rows >= 0 && cols >= 0 && "a matrix has no negative size");
  const std::size_t panels = static_cast<std::size_t>((rows + kPanelRows - 1) / kPanelRows);
  if (!is_quantised(type)) {
    return panels * kPanelRows * static_cast<std::size_t>(cols) * element_bytes(type);
  }
  const PanelFormat format = panel_format(type);
  assert(cols % (format.super ? kSuperBlock : kQuantBlock) == 0 && "rows are whole blocks");
  return panels * (format.super ? format.super_offset(cols / kQuantBlock)
                                : format.block_offset(cols / kQuantBlock));
}

void pack_panels(FileType type, const std::byte* file_rows, int rows, int cols, int panel_begin,
                 int panel_end, std::byte* out) {
  const std::size_t row_bytes = file_row_bytes(type, cols);
  const std::size_t one_panel = panel_bytes(panel_type(type), kPanelRows, cols);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    std::byte* to = out + static_cast<std::size_t>(panel) * one_panel;
    std::memset(to, 0, one_panel);
    const int lanes = std::min(kPanelRows, rows - panel * kPanelRows);
    for (int lane = 0; lane < lanes; ++lane) {
      const std::byte* from =
          file_rows + static_cast<std::size_t>(panel * kPanelRows + lane) * row_bytes;
      if (is_quantised(panel_type(type))) {
        pack_quantised_row(type, from, cols / kQuantBlock, lane, to);
        continue;
      }
      const std::size_t size = element_bytes(panel_type(type));
      for (int c = 0; c < cols; ++c) {
        std::memcpy(to + (static_cast<std::size_t>(c) * kPanelRows +
                          static_cast<std::size_t>(lane)) * size,
                    from + static_cast<std::size_t>(c) * size, size);
      }
    }
  }
}

QuantBlock panel_block(const PanelMatrix& matrix, int row, int block) {
  const PanelFormat format = panel_format(matrix.type);
  const auto lane = static_cast<std::size_t>(row % kPanelRows);
  const std::byte* panel = matrix.data + static_cast<std::size_t>(row / kPanelRows) *
                                             panel_bytes(matrix.type, kPanelRows, matrix.cols);
  const std::byte* from = panel + format.block_offset(block);
  QuantBlock out;
  if (format.super) {
    const std::byte* super = panel + format.super_offset(block);
    out.scale = get_half(super, lane);
    out.minimum = get_half(super + kPanelRows * kHalfBytes, lane);
    out.part = {std::to_integer<std::uint8_t>(from[lane]),
                std::to_integer<std::uint8_t>(from[kPanelRows + lane])};
  } else {
    out.scale = get_half(from, lane);
    if (has_two_halves(matrix.type)) out.minimum = get_half(from + kPanelRows * kHalfBytes, lane);
  }
  const std::byte* weights = from + format.head_bytes + lane * kCellBytes;
  const bool nibbles = format.weight_bytes == kNibbleWeightBytes;
  for (std::size_t c = 0; c < kQuantBlock; ++c) {
    const std::size_t at = nibbles ? c % (kQuantBlock / 2) : c;
    const auto byte =
        std::to_integer<unsigned>(weights[at / kCellBytes * kVectorBytes + at % kCellBytes]);
    out.weight[c] = static_cast<std::uint8_t>(
        !nibbles ? byte : c < kQuantBlock / 2 ? byte & 15U : byte >> 4);
  }
  return out;
}

void dequantize_row(const PanelMatrix& matrix, int row, float* out) {
  assert(row >= 0 && row < matrix.rows && "the row is inside the matrix");
  if (is_quantised(matrix.type)) {
    for (int b = 0; b < matrix.cols / kQuantBlock; ++b, out += kQuantBlock) {
      quant_block_values(matrix.type, panel_block(matrix, row, b), out);
    }
    return;
  }
  const std::size_t size = element_bytes(matrix.type);
  const auto width = static_cast<std::size_t>(matrix.cols);
  const std::byte* from =
      matrix.data +
      (static_cast<std::size_t>(row / kPanelRows) * width * kPanelRows +
       static_cast<std::size_t>(row % kPanelRows)) * size;
  const FileType type = matrix.type == WeightType::F32   ? FileType::F32
                        : matrix.type == WeightType::F16 ? FileType::F16
                                                         : FileType::BF16;
  for (std::size_t c = 0; c < width; ++c) {
    dequantize_file_row(type, from + c * kPanelRows * size, 1, out + c);
  }
}

}  // namespace turnstile::kernels
