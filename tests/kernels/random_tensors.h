// random_tensors.h: weights, activations and KV pools with seeded random content.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

// A matrix as a file holds it and as panels. Scales, minima and floats are of ordinary size, signs
// included; quantised bytes cover their whole range.
struct RandomMatrix {
  RandomMatrix(WeightType type, int rows, int cols, std::mt19937& random);

  std::vector<std::byte> file;
  std::vector<std::byte> panels;
  PanelMatrix view() const { return {type, rows, cols, panels.data()}; }

  WeightType type;
  int rows;
  int cols;
};

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
  std::vector<float> scaled_sum;
};

std::vector<float> random_floats(std::size_t count, std::mt19937& random);

int pick(std::mt19937& random, int low, int high);  // both ends included

}  // namespace turnstile::kernels
