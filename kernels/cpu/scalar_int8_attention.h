// scalar_int8_attention.h: attention over a chunk of an Int8 cache, in plain loops: the definition
// of its bits, which all levels share (kernel_table.h).
//
//   q (head_dim) -> q16 and one scale    x  K bytes (head_dim/2, 16, 2)  ->  integers -> scores
//   exp(score - largest) * value scale   -> p16 and one scale
//   p16 (positions)                      x  V bytes (8, head_dim, 2)     ->  integers -> part
//
// Queries are clamped to kLargestQuery (attention_tile.h), so no value of q gives an infinity.
// Reference: softmax attention in double, tests/kernels/attention_test.cpp.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::scalar {

// The visible positions of one chunk in one kv head.
struct ChunkOfHead {
  const KvLayout* layout;
  const std::byte* head;  // the head block of block 0
  const BlockId* blocks;  // of the chunk's first position
  int count;              // positions, at least 1

  const std::byte* head_block(int position) const {
    return head + layout->offset(0, blocks[position / kKvBlockTokens], 0);
  }
};

// `scores` holds kAttentionChunk floats. Fills the part (attention_parts.h).
void attend_int8_chunk(const ChunkOfHead& chunk, const float* q, float* scores, float* part);

}  // namespace turnstile::kernels::scalar
