#include "tests/kernels/random_tensors.h"

#include <cstring>

#include "kernels/bf16.h"
#include "kernels/half_float.h"

namespace turnstile::kernels {
namespace {

void put_half(std::byte* to, float value) {
  const std::uint16_t half = float_to_half(value);
  std::memcpy(to, &half, sizeof half);
}

}  // namespace

std::string name_of(FileType type) {
  constexpr const char* kNames[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0",
                                    "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL"};
  return kNames[static_cast<std::size_t>(type)];
}

int whole_blocks(FileType type, int cols) {
  const int columns = file_format(type).columns;
  return (cols + columns - 1) / columns * columns;
}

std::vector<std::size_t> half_offsets(FileType type) {
  switch (type) {
    case FileType::Q4_1:
    case FileType::Q5_1:
    case FileType::Q4_K:
    case FileType::Q5_K: return {0, 2};
    case FileType::Q6_K: return {208};
    case FileType::Q2_K: return {80, 82};
    case FileType::Q3_K: return {108};
    default: return {0};
  }
}

RandomMatrix::RandomMatrix(FileType type_, int rows_, int cols_, std::mt19937& random)
    : type(type_), rows(rows_), cols(whole_blocks(type_, cols_)) {
  file.resize(file_row_bytes(type, cols) * static_cast<std::size_t>(rows));
  panels.resize(panel_bytes(panel_type(type), rows, cols));
  // The scales of a K type are multiplied by integers of 4 to 8 bits.
  const bool k_type = file_format(type).columns == kSuperBlock;
  std::normal_distribution<float> normal(0.0F, k_type ? 0.002F : 0.05F);
  for (std::byte& byte : file) byte = static_cast<std::byte>(random());
  const std::size_t block = file_format(type).bytes;
  for (std::size_t at = 0; at < file.size(); at += block) {
    const float value = normal(random);
    if (type == FileType::F32) {
      std::memcpy(file.data() + at, &value, sizeof value);
    } else if (type == FileType::BF16) {
      std::memcpy(file.data() + at, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    } else {
      for (const std::size_t offset : half_offsets(type)) {
        put_half(file.data() + at + offset, normal(random));
      }
    }
  }
  pack_panels(type, file.data(), rows, cols, 0, view().panel_count(), panels.data());
}

RandomActivations::RandomActivations(int rows_, int cols_, std::mt19937& random)
    : rows(rows_),
      cols(cols_),
      f32(random_floats(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(cols_), random)),
      q(f32.size()),
      scale(f32.size() / kQuantBlock),
      sum(f32.size() / kQuantBlock),
      scaled_sum(f32.size() / kQuantBlock),
      bf16(static_cast<std::size_t>(rows_ * bf16_stride(cols_)), 0x7fc0) {}

ActivationRows RandomActivations::view(int first, int count) {
  const std::size_t at = static_cast<std::size_t>(first) * static_cast<std::size_t>(cols);
  return {count,
          cols,
          f32.data() + at,
          q.data() + at,
          scale.data() + at / kQuantBlock,
          sum.data() + at / kQuantBlock,
          scaled_sum.data() + at / kQuantBlock,
          bf16.data() + first * bf16_stride(cols)};
}

std::vector<float> random_floats(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

}  // namespace turnstile::kernels
