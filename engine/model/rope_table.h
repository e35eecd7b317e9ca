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
// Thread: immutable after build(). Cost: positions * rotary_dim floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace turnstile::engine {

class RopeTable {
 public:
  // rotary_dim is even; factors is empty or holds rotary_dim/2 positive values.
  static RopeTable build(std::size_t positions, int rotary_dim, double base,
                         double position_scale, std::span<const float> factors);

  // rotary_dim/2 values each.
  const float* cos_at(std::size_t position) const { return cos_.data() + position * half_; }
  const float* sin_at(std::size_t position) const { return sin_.data() + position * half_; }
  std::size_t positions() const { return half_ == 0 ? 0 : cos_.size() / half_; }

 private:
  std::size_t half_ = 0;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

}  // namespace turnstile::engine
