// row_loops.h: the passes over a row of logits, each compiled for more than one vector width.
//
//   scan    the greatest value of each tile of kRowTile, and the greatest magnitude of all
//   weigh   weight = exp((x - best) * inverse_temperature) of each value, a sum for each tile of
//           kWeightTile
//   reach   sum of the weights of the values >= a threshold, for each tile of kWeightTile
//   pick    the indices of the values in a range, one after the other
//   drop    takes the weight of values below (or at) a threshold away
//
// All give the same bits: weights and comparisons are single operations, and a sum of a tile is
// always that of 16 lanes, lane i taking the elements i, i + 16, ..., and of the lanes in their
// order.
//
// Thread: any; no state. Tests: tests/engine/logits_row_test.cpp compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace turnstile::engine {

inline constexpr std::size_t kRowTile = 64;
inline constexpr std::size_t kWeightTile = 256;

// What scan() returns if all values are numbers is below the bits of infinity.
struct RowLoops {
  std::int32_t (*scan)(std::span<const float> row, float* tile_best);
  void (*weigh)(std::span<const float> row, float best, float inverse_temperature, float* weights,
                float* tile_sums);
  // Returns the number of values.
  std::size_t (*reach)(std::span<const float> row, const float* weights, float at_least,
                       float* tile_sums);
  // Returns the number of indices; `indices` has room for as many as the row has values.
  std::size_t (*pick)(std::span<const float> row, float at_least, float below,
                      std::uint32_t* indices);
  // Values below `threshold`, and those equal to it if `equal_too`.
  void (*drop)(std::span<const float> row, float* weights, float threshold, bool equal_too);
};

const RowLoops& plain_row_loops();
// The fastest of this machine.
const RowLoops& row_loops();

// exp(below_best) for below_best <= 0, as weigh() computes it: in float; exactly 0 below 2^-126.
float weight_of(float below_best);

}  // namespace turnstile::engine
