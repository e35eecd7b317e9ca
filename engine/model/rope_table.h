// rope_table.h: the cosines and sines of rotary position embedding for every position.
//
// Pair i of a head (values 2i and 2i+1) turns by
//   angle(position, i) = position / position_scale * base^(-2i/rotary_dim) / factor[i]
// computed in double and rounded to float once, so position 8,000 is as exact as position 1.
//
// `position_scale` is linear scaling ("linear" in the file; 1 = off). `factors` are what a file
// holds in `rope_freqs.weight` (Llama 3 scaling, already divided out per pair); empty = off.
//
// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, eq. 34.
// Thread: immutable after build(). Cost: positions * rotary_dim floats, for a long context more
//         than the step workspace; so they are huge pages too.
// Tests:  tests/engine/llama_tiny_test.cpp, llama_allocation_test.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "engine/loader/huge_pages.h"

namespace turnstile::engine {

class RopeTable {
 public:
  RopeTable() = default;  // of no position

  // nullopt when the memory cannot be had. positions > 0; rotary_dim is even; factors is empty or
  // holds rotary_dim/2 positive values.
  static std::optional<RopeTable> build(std::size_t positions, int rotary_dim, double base,
                                        double position_scale, std::span<const float> factors);

  // rotary_dim/2 values each.
  const float* cos_at(std::size_t position) const { return values() + 2 * position * half_; }
  const float* sin_at(std::size_t position) const { return cos_at(position) + half_; }
  std::size_t positions() const { return positions_; }

 private:
  const float* values() const { return reinterpret_cast<const float*>(memory_.data()); }

  std::size_t positions_ = 0;
  std::size_t half_ = 0;
  HugePages memory_;  // (positions, cosines and then sines, half)
};

}  // namespace turnstile::engine
