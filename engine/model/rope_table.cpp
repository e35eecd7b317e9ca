#include "engine/model/rope_table.h"

#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

namespace turnstile::engine {

std::optional<RopeTable> RopeTable::build(std::size_t positions, int rotary_dim, double base,
                                          double position_scale,
                                          std::span<const float> factors) {
  assert(rotary_dim > 0 && rotary_dim % 2 == 0 && "rotary dimensions come in pairs");
  const auto half = static_cast<std::size_t>(rotary_dim / 2);
  assert((factors.empty() || factors.size() == half) && "one factor for each pair");

  std::vector<double> frequency(half);
  for (std::size_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / rotary_dim) / position_scale;
    if (!factors.empty()) frequency[i] /= static_cast<double>(factors[i]);
  }

  auto memory = HugePages::allocate(positions * 2 * half * sizeof(float));
  if (!memory) return std::nullopt;
  RopeTable table;
  table.positions_ = positions;
  table.half_ = half;
  auto* value = reinterpret_cast<float*>(memory->data());
  for (std::size_t position = 0; position < positions; ++position) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency[i];
      value[i] = static_cast<float>(std::cos(angle));
      value[half + i] = static_cast<float>(std::sin(angle));
    }
    value += 2 * half;
  }
  table.memory_ = std::move(*memory);
  return table;
}

}  // namespace turnstile::engine
