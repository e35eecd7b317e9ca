// attention_tile.h: how many query heads the vector levels handle together, and their scratch.
//
// A tile is a few rows times the query heads of one kv head: its vectors share every load and
// every conversion of K and V. Constants only, so that all levels may include it.
#pragma once

#include <cstddef>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

inline constexpr int kAttentionTileVectors = 12;  // 4 rows of the default model's groups of 3

// Scores of a chunk and the weighted sums.
constexpr std::size_t attention_tile_floats(int head_dim) {
  return static_cast<std::size_t>(kAttentionTileVectors) *
         static_cast<std::size_t>(kAttentionChunk + head_dim);
}

}  // namespace turnstile::kernels
