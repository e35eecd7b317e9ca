#include "tests/kernels/random_tensors.h"

#include <cstring>

#include "kernels/half_float.h"

namespace turnstile::kernels {
namespace {

void put_half(std::byte* to, float value) {
  const std::uint16_t half = float_to_half(value);
  std::memcpy(to, &half, sizeof half);
}

}  // namespace

RandomMatrix::RandomMatrix(WeightType type_, int rows_, int cols_, std::mt19937& random)
    : file(file_row_bytes(type_, cols_) * static_cast<std::size_t>(rows_)),
      panels(panel_bytes(type_, rows_, cols_)),
      type(type_),
      rows(rows_),
      cols(cols_) {
  std::normal_distribution<float> normal(0.0F, 0.05F);
  for (std::byte& byte : file) byte = static_cast<std::byte>(random());
  if (type == WeightType::F32) {
    for (std::size_t at = 0; at < file.size(); at += 4) {
      const float value = normal(random);
      std::memcpy(file.data() + at, &value, sizeof value);
    }
  } else if (type == WeightType::F16) {
    for (std::size_t at = 0; at < file.size(); at += 2) put_half(file.data() + at, normal(random));
  } else {
    const std::size_t block = file_row_bytes(type, kQuantBlock);
    for (std::size_t at = 0; at < file.size(); at += block) {
      put_half(file.data() + at, normal(random));
      if (type == WeightType::Q4_1) put_half(file.data() + at + 2, normal(random));
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
      scaled_sum(f32.size() / kQuantBlock) {}

ActivationRows RandomActivations::view(int first, int count) {
  const std::size_t at = static_cast<std::size_t>(first) * static_cast<std::size_t>(cols);
  return {count,
          cols,
          f32.data() + at,
          q.data() + at,
          scale.data() + at / kQuantBlock,
          scaled_sum.data() + at / kQuantBlock};
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
