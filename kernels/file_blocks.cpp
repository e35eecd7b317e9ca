#include "kernels/file_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/half_float.h"

namespace turnstile::kernels {
namespace {

constexpr int kHalfBlock = kQuantBlock / 2;

// The levels of IQ4_NL.
constexpr std::int8_t kNonLinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

unsigned byte_at(const std::byte* from, int at) { return std::to_integer<unsigned>(from[at]); }

std::uint16_t half_at(const std::byte* from, int at) {
  std::uint16_t half = 0;
  std::memcpy(&half, from + at, sizeof half);
  return half;
}

// Nibble c of 16 bytes: the low ones are columns 0..15, the high ones 16..31.
unsigned nibble(const std::byte* bytes, int c) {
  return c < kHalfBlock ? byte_at(bytes, c) & 15U : byte_at(bytes, c - kHalfBlock) >> 4;
}

// All 32 nibbles, in a loop that compilers turn into vectors; loading a model is mostly this.
void read_nibbles(const std::byte* bytes, QuantBlock& out) {
  std::array<std::uint8_t, kHalfBlock> both;
  std::memcpy(both.data(), bytes, both.size());
  for (std::size_t i = 0; i < both.size(); ++i) {
    out.weight[i] = both[i] & 15U;
    out.weight[i + kHalfBlock] = both[i] >> 4;
  }
}

unsigned fifth_bit(const std::byte* bits, int c) { return byte_at(bits, c / 8) >> c % 8 & 1U; }

// The 6-bit scale and minimum of sub-block k of Q4_K and Q5_K: twelve bytes hold sixteen numbers,
// the last eight split into four low and two high bits.
void read_six_bit_pair(const std::byte* scales, int k, QuantBlock& out) {
  if (k < 4) {
    out.part = {static_cast<std::uint8_t>(byte_at(scales, k) & 63U),
                static_cast<std::uint8_t>(byte_at(scales, k + 4) & 63U)};
    return;
  }
  const unsigned low = byte_at(scales, k + 4);
  out.part = {static_cast<std::uint8_t>((low & 15U) | (byte_at(scales, k - 4) >> 6) << 4),
              static_cast<std::uint8_t>(low >> 4 | (byte_at(scales, k) >> 6) << 4)};
}

// Sub-block k of 32 columns of a super-block that starts at `from`.
QuantBlock read_q4_k(const std::byte* from, int k) {
  QuantBlock out{.scale = half_at(from, 0), .minimum = half_at(from, 2)};
  read_six_bit_pair(from + 4, k, out);
  for (int c = 0; c < kQuantBlock; ++c) {
    const unsigned byte = byte_at(from, 16 + k / 2 * kQuantBlock + c);
    out.weight[static_cast<std::size_t>(c)] =
        static_cast<std::uint8_t>(k % 2 == 0 ? byte & 15U : byte >> 4);
  }
  return out;
}

QuantBlock read_q5_k(const std::byte* from, int k) {
  QuantBlock out{.scale = half_at(from, 0), .minimum = half_at(from, 2)};
  read_six_bit_pair(from + 4, k, out);
  for (int c = 0; c < kQuantBlock; ++c) {
    const unsigned byte = byte_at(from, 48 + k / 2 * kQuantBlock + c);
    const unsigned high = byte_at(from, 16 + c) >> k & 1U;
    out.weight[static_cast<std::size_t>(c)] =
        static_cast<std::uint8_t>((k % 2 == 0 ? byte & 15U : byte >> 4) | high << 4);
  }
  return out;
}

QuantBlock read_q6_k(const std::byte* from, int k) {
  const int half = k / 4;
  const int group = k % 4;
  const std::byte* low = from + 64 * half + 32 * (group % 2);
  const std::byte* high = from + 128 + 32 * half;
  QuantBlock out{.scale = half_at(from, 208)};
  out.part = {static_cast<std::uint8_t>(byte_at(from, 192 + 2 * k)),
              static_cast<std::uint8_t>(byte_at(from, 192 + 2 * k + 1))};
  for (int c = 0; c < kQuantBlock; ++c) {
    const unsigned four = group < 2 ? byte_at(low, c) & 15U : byte_at(low, c) >> 4;
    const unsigned two = byte_at(high, c) >> (2 * group) & 3U;
    out.weight[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(four | two << 4);
  }
  return out;
}

// 2-bit weights of Q2_K and Q3_K.
unsigned two_bits(const std::byte* from, int k, int c) {
  return byte_at(from, 32 * (k / 4) + c) >> (2 * (k % 4)) & 3U;
}

// As a Q6_K block: (n - 4) is (n - 4 + 32) - 32.
QuantBlock read_q3_k(const std::byte* from, int k) {
  const std::byte* scales = from + 96;
  QuantBlock out{.scale = half_at(from, 108)};
  for (int h = 0; h < 2; ++h) {
    const int i = 2 * k + h;
    const unsigned low = i < 8 ? byte_at(scales, i) & 15U : byte_at(scales, i - 8) >> 4;
    const unsigned high = byte_at(scales, 8 + i % 4) >> (2 * (i / 4)) & 3U;
    out.part[static_cast<std::size_t>(h)] = static_cast<std::uint8_t>((low | high << 4) - 32U);
  }
  for (int c = 0; c < kQuantBlock; ++c) {
    const unsigned high = byte_at(from, c) >> k & 1U;
    out.weight[static_cast<std::size_t>(c)] =
        static_cast<std::uint8_t>(two_bits(from + 32, k, c) + 4U * high + 28U);
  }
  return out;
}

void q2_k_values(const std::byte* from, int k, float* out) {
  const float scale = half_to_float(half_at(from, 80));
  const float minimum = half_to_float(half_at(from, 82));
  for (int c = 0; c < kQuantBlock; ++c) {
    const unsigned both = byte_at(from, 2 * k + c / kHalfBlock);
    const auto level = static_cast<float>(two_bits(from + 16, k, c));
    out[c] = scale * static_cast<float>(both & 15U) * level -
             minimum * static_cast<float>(both >> 4);
  }
}

QuantBlock requantise(const float* values) {
  float largest = 0.0F;
  for (int c = 0; c < kQuantBlock; ++c) largest = std::max(largest, std::abs(values[c]));
  QuantBlock out{.scale = float_to_half(largest / 127.0F)};
  const float scale = half_to_float(out.scale);
  for (std::size_t c = 0; c < kQuantBlock; ++c) {
    const float steps = scale > 0.0F ? std::nearbyint(values[c] / scale) : 0.0F;
    out.weight[c] = static_cast<std::uint8_t>(std::clamp(steps, -127.0F, 127.0F) + 128.0F);
  }
  return out;
}

}  // namespace

FileFormat file_format(FileType type) {
  switch (type) {
    case FileType::F32: return {1, 4};
    case FileType::F16: return {1, 2};
    case FileType::BF16: return {1, 2};
    case FileType::Q8_0: return {32, 34};
    case FileType::Q4_0: return {32, 18};
    case FileType::Q4_1: return {32, 20};
    case FileType::Q5_0: return {32, 22};
    case FileType::Q5_1: return {32, 24};
    case FileType::IQ4_NL: return {32, 18};
    case FileType::Q4_K: return {256, 144};
    case FileType::Q5_K: return {256, 176};
    case FileType::Q6_K: return {256, 210};
    case FileType::Q2_K: return {256, 84};
    case FileType::Q3_K: return {256, 110};
  }
  assert(false && "a file type of the list");
  return {1, 0};
}

WeightType panel_type(FileType type) {
  switch (type) {
    case FileType::F32: return WeightType::F32;
    case FileType::F16: return WeightType::F16;
    case FileType::BF16: return WeightType::BF16;
    case FileType::Q4_0: return WeightType::Q4_0;
    case FileType::Q4_1: return WeightType::Q4_1;
    case FileType::Q5_0: return WeightType::Q5_0;
    case FileType::Q5_1: return WeightType::Q5_1;
    case FileType::Q4_K: return WeightType::Q4_K;
    case FileType::Q5_K: return WeightType::Q5_K;
    case FileType::Q6_K:
    case FileType::Q3_K: return WeightType::Q6_K;
    case FileType::Q8_0:
    case FileType::Q2_K:
    case FileType::IQ4_NL: return WeightType::Q8_0;
  }
  assert(false && "a file type of the list");
  return WeightType::F32;
}

bool is_quantised(WeightType type) {
  return type != WeightType::F32 && type != WeightType::F16 && type != WeightType::BF16;
}

std::size_t file_row_bytes(FileType type, int cols) {
  const FileFormat format = file_format(type);
  assert(cols >= 0 && cols % format.columns == 0 && "rows are whole blocks");
  return static_cast<std::size_t>(cols / format.columns) * format.bytes;
}

QuantBlock read_quant_block(FileType type, const std::byte* file_row, int block) {
  const FileFormat format = file_format(type);
  const int per_block = format.columns / kQuantBlock;
  assert(per_block > 0 && "a quantised type");
  const std::byte* from = file_row + static_cast<std::size_t>(block / per_block) * format.bytes;
  const int k = block % per_block;
  QuantBlock out;
  const auto fill = [&](auto weight) {
    for (int c = 0; c < kQuantBlock; ++c) {
      out.weight[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(weight(c));
    }
  };
  switch (type) {
    case FileType::Q8_0:
      out.scale = half_at(from, 0);
      fill([&](int c) { return byte_at(from, 2 + c) ^ 0x80U; });
      break;
    case FileType::Q4_0:
      out.scale = half_at(from, 0);
      read_nibbles(from + 2, out);
      break;
    case FileType::Q4_1:
      out.scale = half_at(from, 0);
      out.minimum = half_at(from, 2);
      read_nibbles(from + 4, out);
      break;
    case FileType::Q5_0:
      out.scale = half_at(from, 0);
      fill([&](int c) { return nibble(from + 6, c) | fifth_bit(from + 2, c) << 4; });
      break;
    case FileType::Q5_1:
      out.scale = half_at(from, 0);
      out.minimum = half_at(from, 2);
      fill([&](int c) { return nibble(from + 8, c) | fifth_bit(from + 4, c) << 4; });
      break;
    case FileType::IQ4_NL:
      out.scale = half_at(from, 0);
      fill([&](int c) { return kNonLinearLevels[nibble(from + 2, c)] + 128; });
      break;
    case FileType::Q4_K: return read_q4_k(from, k);
    case FileType::Q5_K: return read_q5_k(from, k);
    case FileType::Q6_K: return read_q6_k(from, k);
    case FileType::Q3_K: return read_q3_k(from, k);
    case FileType::Q2_K: {
      float values[kQuantBlock];
      q2_k_values(from, k, values);
      return requantise(values);
    }
    case FileType::F32:
    case FileType::F16:
    case FileType::BF16: assert(false && "a float type has no blocks");
  }
  return out;
}

void quant_block_values(WeightType type, const QuantBlock& block, float* out) {
  const float half_scale = half_to_float(block.scale);
  const float half_minimum = half_to_float(block.minimum);
  float scale[2] = {half_scale, half_scale};
  float minimum = 0.0F;
  int zero_point = 0;
  switch (type) {
    case WeightType::Q8_0: zero_point = 128; break;
    case WeightType::Q4_0: zero_point = 8; break;
    case WeightType::Q5_0: zero_point = 16; break;
    case WeightType::Q4_1:
    case WeightType::Q5_1: minimum = half_minimum; break;
    case WeightType::Q4_K:
    case WeightType::Q5_K:
      scale[0] = scale[1] = half_scale * static_cast<float>(block.part[0]);
      minimum = -(half_minimum * static_cast<float>(block.part[1]));
      break;
    case WeightType::Q6_K:
      zero_point = 32;
      for (std::size_t h = 0; h < 2; ++h) {
        scale[h] = half_scale * static_cast<float>(static_cast<std::int8_t>(block.part[h]));
      }
      break;
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16: assert(false && "a float type has no blocks");
  }
  const bool with_minimum = type == WeightType::Q4_1 || type == WeightType::Q5_1 ||
                            type == WeightType::Q4_K || type == WeightType::Q5_K;
  for (int c = 0; c < kQuantBlock; ++c) {
    const int level = static_cast<int>(block.weight[static_cast<std::size_t>(c)]) - zero_point;
    out[c] = scale[c / kHalfBlock] * static_cast<float>(level);
    if (with_minimum) out[c] += minimum;
  }
}

void dequantize_file_row(FileType type, const std::byte* file_row, int cols, float* out) {
  const FileFormat format = file_format(type);
  assert(cols % format.columns == 0 && "rows are whole blocks");
  if (type == FileType::F32) {
    std::memcpy(out, file_row, static_cast<std::size_t>(cols) * sizeof(float));
    return;
  }
  if (format.columns == 1) {
    for (int c = 0; c < cols; ++c) {
      const std::byte* from = file_row + static_cast<std::size_t>(c) * format.bytes;
      out[c] = type == FileType::F16 ? half_to_float(half_at(from, 0))
                                      : bf16_to_float(half_at(from, 0));
    }
    return;
  }
  const int blocks = cols / kQuantBlock;
  for (int b = 0; b < blocks; ++b, out += kQuantBlock) {
    if (type == FileType::Q2_K) {
      q2_k_values(file_row + static_cast<std::size_t>(b / 8) * format.bytes, b % 8, out);
    } else {
      quant_block_values(panel_type(type), read_quant_block(type, file_row, b), out);
    }
  }
}

}  // namespace turnstile::kernels
