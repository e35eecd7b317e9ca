// random_tensors.h: weights, activations and KV pools with seeded random content.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

inline constexpr FileType kAllFileTypes[] = {
    FileType::F32,  FileType::F16,  FileType::BF16, FileType::Q8_0, FileType::Q4_0,
    FileType::Q4_1, FileType::Q5_0, FileType::Q5_1, FileType::Q4_K, FileType::Q5_K,
    FileType::Q6_K, FileType::Q2_K, FileType::Q3_K, FileType::IQ4_NL};
// One file type for each quantised panel type.
inline constexpr FileType kQuantisedPanels[] = {FileType::Q8_0, FileType::Q4_0, FileType::Q4_1,
                                                FileType::Q5_0, FileType::Q5_1, FileType::Q4_K,
                                                FileType::Q5_K, FileType::Q6_K};

std::string name_of(FileType type);

// A matrix as a file holds it and as panels. Scales, minima and floats are of ordinary size, signs
// included; quantised bytes cover their whole range. `cols` is rounded up to whole blocks.
struct RandomMatrix {
  RandomMatrix(FileType type, int rows, int cols, std::mt19937& random);

  std::vector<std::byte> file;
  std::vector<std::byte> panels;
  PanelMatrix view() const { return {panel_type(type), rows, cols, panels.data()}; }

  FileType type;
  int rows;
  int cols;
};

// `cols` rounded up to whole blocks of the type.
int whole_blocks(FileType type, int cols);

// Where the half-precision numbers of a block of a quantised type lie.
std::vector<std::size_t> half_offsets(FileType type);

// bf16 is NaN until a table's quantize() fills it.
struct RandomActivations {
  RandomActivations(int rows, int cols, std::mt19937& random);

  // All rows, or rows [first, first + count) as rows of their own.
  ActivationRows view() { return view(0, rows); }
  ActivationRows view(int first, int count);

  int rows;
  int cols;
  std::vector<float> f32;
  std::vector<std::int8_t> q;
  std::vector<float> scale;
  std::vector<std::int32_t> sum;
  std::vector<float> scaled_sum;
  std::vector<std::uint16_t> bf16;
};

std::vector<float> random_floats(std::size_t count, std::mt19937& random);

int pick(std::mt19937& random, int low, int high);  // both ends included

}  // namespace turnstile::kernels
