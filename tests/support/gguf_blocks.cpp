#include "tests/support/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/half_float.h"

namespace turnstile::tests {
namespace {

using engine::GgufType;

class Bytes {
 public:
  template <typename T>
  void put(T value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  void put_half(float value) { put(kernels::float_to_half(value)); }

  std::vector<std::byte> bytes;
};

std::uint8_t level(float value, float minimum, float step, long most) {
  const long steps = step == 0.0F ? 0 : std::lround((value - minimum) / step);
  return static_cast<std::uint8_t>(std::clamp(steps, 0L, most));
}

float largest_of(const float* values, int count) {
  float largest = 0.0F;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// Q4_0, Q4_1, Q5_0, Q5_1: `bits` bits, with a minimum or around the middle level.
void put_simple(const float* values, int bits, bool with_minimum, Bytes& out) {
  const long most = (1L << bits) - 1;
  const float middle = static_cast<float>(1L << (bits - 1));
  const float low = *std::min_element(values, values + 32);
  const float high = *std::max_element(values, values + 32);
  const float step = with_minimum ? (high - low) / static_cast<float>(most)
                                  : largest_of(values, 32) / (middle - 1.0F);
  const float minimum = with_minimum ? low : -middle * step;
  out.put_half(step);
  if (with_minimum) out.put_half(minimum);
  std::array<std::uint8_t, 32> levels{};
  std::uint32_t fifth_bits = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    levels[i] = level(values[i], minimum, step, most);
    fifth_bits |= static_cast<std::uint32_t>(levels[i] >> 4 & 1) << i;
  }
  if (bits == 5) out.put(fifth_bits);
  for (std::size_t i = 0; i < 16; ++i) {
    out.put(static_cast<std::uint8_t>((levels[i] & 15) | (levels[i + 16] & 15) << 4));
  }
}

void put_q8_0(const float* values, Bytes& out) {
  const float step = largest_of(values, 32) / 127.0F;
  out.put_half(step);
  for (int i = 0; i < 32; ++i) {
    out.put(static_cast<std::int8_t>(step == 0.0F ? 0 : std::lround(values[i] / step)));
  }
}

void put_iq4_nl(const float* values, Bytes& out) {
  constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  const float step = largest_of(values, 32) / 113.0F;
  out.put_half(step);
  const auto nearest = [&](float value) {
    int best = 0;
    for (int i = 1; i < 16; ++i) {
      if (std::abs(value - step * static_cast<float>(kLevels[i])) <
          std::abs(value - step * static_cast<float>(kLevels[best]))) {
        best = i;
      }
    }
    return best;
  };
  for (int i = 0; i < 16; ++i) {
    out.put(static_cast<std::uint8_t>(nearest(values[i]) | nearest(values[i + 16]) << 4));
  }
}

// The scale and minimum of each part of a super-block in units that all share.
struct Parts {
  float scale_unit = 0.0F;
  float minimum_unit = 0.0F;
  std::array<std::uint8_t, 16> scale{};
  std::array<std::uint8_t, 16> minimum{};
  std::array<std::uint8_t, 256> level{};
};

Parts split(const float* values, int part_columns, long most_level, float most_part) {
  Parts parts;
  const int count = 256 / part_columns;
  std::array<float, 16> step{};
  std::array<float, 16> below{};
  for (int p = 0; p < count; ++p) {
    const float* from = values + p * part_columns;
    const float low = std::min(0.0F, *std::min_element(from, from + part_columns));
    const float high = *std::max_element(from, from + part_columns);
    below[static_cast<std::size_t>(p)] = -low;
    step[static_cast<std::size_t>(p)] = std::max(0.0F, high - low) / static_cast<float>(most_level);
  }
  parts.scale_unit = *std::max_element(step.begin(), step.end()) / most_part;
  parts.minimum_unit = *std::max_element(below.begin(), below.end()) / most_part;
  for (std::size_t p = 0; p < static_cast<std::size_t>(count); ++p) {
    parts.scale[p] = level(step[p], 0.0F, parts.scale_unit, std::lround(most_part));
    parts.minimum[p] = level(below[p], 0.0F, parts.minimum_unit, std::lround(most_part));
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t p = i / static_cast<std::size_t>(part_columns);
    const float minimum = -parts.minimum_unit * parts.minimum[p];
    parts.level[i] = level(values[i], minimum, parts.scale_unit * parts.scale[p], most_level);
  }
  return parts;
}

// Eight 6-bit scales and minima in twelve bytes.
void put_six_bit_pairs(const Parts& parts, Bytes& out) {
  for (std::size_t k = 0; k < 4; ++k) {
    out.put(static_cast<std::uint8_t>(parts.scale[k] | parts.scale[k + 4] >> 4 << 6));
  }
  for (std::size_t k = 0; k < 4; ++k) {
    out.put(static_cast<std::uint8_t>(parts.minimum[k] | parts.minimum[k + 4] >> 4 << 6));
  }
  for (std::size_t k = 4; k < 8; ++k) {
    out.put(static_cast<std::uint8_t>((parts.scale[k] & 15) | (parts.minimum[k] & 15) << 4));
  }
}

// Q4_K and Q5_K.
void put_q45_k(const float* values, int bits, Bytes& out) {
  const Parts parts = split(values, 32, (1L << bits) - 1, 63.0F);
  out.put_half(parts.scale_unit);
  out.put_half(parts.minimum_unit);
  put_six_bit_pairs(parts, out);
  for (std::size_t c = 0; bits == 5 && c < 32; ++c) {
    unsigned high = 0;
    for (std::size_t k = 0; k < 8; ++k) high |= (parts.level[32 * k + c] >> 4 & 1U) << k;
    out.put(static_cast<std::uint8_t>(high));
  }
  for (std::size_t k = 0; k < 8; k += 2) {
    for (std::size_t c = 0; c < 32; ++c) {
      out.put(static_cast<std::uint8_t>((parts.level[32 * k + c] & 15) |
                                        (parts.level[32 * (k + 1) + c] & 15) << 4));
    }
  }
}

// Two bits of each level: bits 2k of a byte belong to its group k of 32 columns.
void put_two_bits(const std::array<std::uint8_t, 256>& levels, Bytes& out) {
  for (std::size_t half = 0; half < 256; half += 128) {
    for (std::size_t c = 0; c < 32; ++c) {
      unsigned byte = 0;
      for (std::size_t k = 0; k < 4; ++k) byte |= (levels[half + 32 * k + c] & 3U) << (2 * k);
      out.put(static_cast<std::uint8_t>(byte));
    }
  }
}

void put_q2_k(const float* values, Bytes& out) {
  const Parts parts = split(values, 16, 3, 15.0F);
  for (std::size_t p = 0; p < 16; ++p) {
    out.put(static_cast<std::uint8_t>(parts.scale[p] | parts.minimum[p] << 4));
  }
  put_two_bits(parts.level, out);
  out.put_half(parts.scale_unit);
  out.put_half(parts.minimum_unit);
}

// Signed levels around zero with a signed scale for each 16 columns: Q3_K and Q6_K.
struct SignedParts {
  float unit = 0.0F;
  std::array<std::uint8_t, 16> scale{};
  std::array<std::uint8_t, 256> level{};  // plus `middle`
};

SignedParts split_signed(const float* values, int middle, float most_part) {
  SignedParts parts;
  std::array<float, 16> step{};
  for (int p = 0; p < 16; ++p) {
    step[static_cast<std::size_t>(p)] =
        largest_of(values + 16 * p, 16) / static_cast<float>(middle - 1);
  }
  parts.unit = *std::max_element(step.begin(), step.end()) / most_part;
  for (std::size_t p = 0; p < 16; ++p) {
    parts.scale[p] = level(step[p], 0.0F, parts.unit, std::lround(most_part));
    const float used = parts.unit * parts.scale[p];
    for (std::size_t i = 16 * p; i < 16 * p + 16; ++i) {
      parts.level[i] = level(values[i], -static_cast<float>(middle) * used, used, 2 * middle - 1);
    }
  }
  return parts;
}

void put_q3_k(const float* values, Bytes& out) {
  const SignedParts parts = split_signed(values, 4, 31.0F);
  for (std::size_t c = 0; c < 32; ++c) {
    unsigned high = 0;
    for (std::size_t k = 0; k < 8; ++k) high |= (parts.level[32 * k + c] >> 2 & 1U) << k;
    out.put(static_cast<std::uint8_t>(high));
  }
  put_two_bits(parts.level, out);
  std::array<std::uint8_t, 16> scale{};
  for (std::size_t p = 0; p < 16; ++p) scale[p] = static_cast<std::uint8_t>(parts.scale[p] + 32);
  for (std::size_t p = 0; p < 8; ++p) {
    out.put(static_cast<std::uint8_t>((scale[p] & 15) | (scale[p + 8] & 15) << 4));
  }
  for (std::size_t p = 0; p < 4; ++p) {
    out.put(static_cast<std::uint8_t>(scale[p] >> 4 | scale[p + 4] >> 4 << 2 |
                                      scale[p + 8] >> 4 << 4 | scale[p + 12] >> 4 << 6));
  }
  out.put_half(parts.unit);
}

void put_q6_k(const float* values, Bytes& out) {
  const SignedParts parts = split_signed(values, 32, 127.0F);
  for (std::size_t half = 0; half < 256; half += 128) {
    for (std::size_t c = 0; c < 64; ++c) {
      out.put(static_cast<std::uint8_t>((parts.level[half + c] & 15) |
                                        (parts.level[half + 64 + c] & 15) << 4));
    }
  }
  for (std::size_t half = 0; half < 256; half += 128) {
    for (std::size_t c = 0; c < 32; ++c) {
      unsigned byte = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        byte |= static_cast<unsigned>(parts.level[half + 32 * k + c] >> 4) << (2 * k);
      }
      out.put(static_cast<std::uint8_t>(byte));
    }
  }
  for (const std::uint8_t scale : parts.scale) out.put(scale);
  out.put_half(parts.unit);
}

void put_block(GgufType type, const float* values, Bytes& out) {
  switch (type) {
    case GgufType::Q8_0: return put_q8_0(values, out);
    case GgufType::Q4_0: return put_simple(values, 4, false, out);
    case GgufType::Q4_1: return put_simple(values, 4, true, out);
    case GgufType::Q5_0: return put_simple(values, 5, false, out);
    case GgufType::Q5_1: return put_simple(values, 5, true, out);
    case GgufType::IQ4_NL: return put_iq4_nl(values, out);
    case GgufType::Q4_K: return put_q45_k(values, 4, out);
    case GgufType::Q5_K: return put_q45_k(values, 5, out);
    case GgufType::Q2_K: return put_q2_k(values, out);
    case GgufType::Q3_K: return put_q3_k(values, out);
    case GgufType::Q6_K: return put_q6_k(values, out);
    default: assert(false && "a type that tests write");
  }
}

}  // namespace

std::vector<std::byte> encode_rows(GgufType type, const std::vector<float>& values) {
  Bytes out;
  if (type == GgufType::F32) {
    for (const float value : values) out.put(value);
  } else if (type == GgufType::F16) {
    for (const float value : values) out.put_half(value);
  } else if (type == GgufType::BF16) {
    for (const float value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      out.put(static_cast<std::uint16_t>(bits >> 16));
    }
  } else {
    const std::size_t block =
        engine::find_gguf_type(static_cast<std::uint32_t>(type))->block_elements;
    assert(values.size() % block == 0 && "whole blocks");
    for (std::size_t i = 0; i < values.size(); i += block) put_block(type, values.data() + i, out);
  }
  return std::move(out.bytes);
}

}  // namespace turnstile::tests
