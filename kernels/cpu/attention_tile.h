// attention_tile.h: how many query heads the vector levels handle together, and their scratch.
//
// A tile is a few rows times the query heads of one kv head: its vectors share every load and
// every conversion of K and V. Constants, so that all levels may include it.
#pragma once

#include <cstddef>

#include "kernels/attention_parts.h"
#include "kernels/kernel_table.h"

namespace turnstile::kernels {

inline constexpr int kAttentionTileVectors = 12;  // 4 rows of the default model's groups of 3

// The integers that queries and weights become beside an Int8 cache: 512 * 127 * 32,767 and
// kAttentionChunk * 127 * 32,767 are both below 2^31.
inline constexpr float kInt16Largest = 32767.0F;

// Queries beside an Int8 cache are clamped to it, so that no scale is infinite. NaN becomes it.
inline constexpr float kLargestQuery = 1e30F;

// For each vector: the scores of a chunk, as floats and as 16-bit integers; the query as integers;
// the parts of the chunks so far and of the next one.
constexpr std::size_t attention_tile_floats(int head_dim) {
  const std::size_t small = static_cast<std::size_t>(kAttentionChunk + head_dim) / 2;
  return static_cast<std::size_t>(kAttentionTileVectors) *
         (static_cast<std::size_t>(kAttentionChunk) + small + 2 * attention_part_floats(head_dim));
}

}  // namespace turnstile::kernels
