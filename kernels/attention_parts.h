// attention_parts.h: the result of attention over one chunk of positions, and how they add up.
//
//   part of a chunk   [0] largest score   [1] sum of exp(score - largest)   [2..8) unused
//                     [8..8+head_dim)     sum of exp(score - largest) * value
//
//   positions   |  chunk 0  |  chunk 1  |  chunk 2  |       Chunks are counted from position 0, so
//               |  part 0   |  part 1   |  part 2   |       where a part ends depends on nothing
//                    \______ fold ______/      /            else. Parts are folded in ascending
//                             \____ fold _____/             order; whoever computes them, on any
//                                    \__ finish -> out      thread, gets the same bits.
//
// One compiled copy serves all levels, so that a row which is cut over threads and one which is
// not are the same bits at each. Functions of their arguments; -ffp-contract=off matters.
// Source: the running softmax of Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018; split over positions as in Dao et al., "Flash-Decoding", 2023.
#pragma once

#include <cstddef>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

inline constexpr int kPartHeader = 8;  // floats

constexpr std::size_t attention_part_floats(int head_dim) {
  return static_cast<std::size_t>(kPartHeader + head_dim);
}

// Chunks that hold positions [0, visible).
constexpr int attention_chunks(int visible) {
  return (visible + kAttentionChunk - 1) / kAttentionChunk;
}

// The part of chunk `chunk` of query head `head` of row `row`.
float* attention_part(const KvLayout& layout, const AttentionRows& rows, int row, int head,
                      int chunk);

// into += part, both of chunks that see at least one position.
void fold_attention_part(float* into, const float* part, int head_dim);

// out[d] = weighted mean; -0 becomes +0: the two differ by what a row does not see.
void finish_attention(const float* part, int head_dim, float* out);

// Folds all parts of a row, all query heads, and writes its `out`.
void merge_attention_parts(const KvLayout& layout, const AttentionRows& rows, int row);

// exp as the vector levels compute it, bit for bit: range reduction to [-ln2/2, ln2/2], then the
// minimax polynomial of Cephes' expf (S. Moshier) in the order of G. Estrin (Western Joint Computer
// Conference, 1960), whose chain of operations is short. Relative error below 2e-7 for x in
// [-87, 88], exactly 1 at 0; outside that range x is clamped to it.
float attention_exp(float x);

}  // namespace turnstile::kernels
