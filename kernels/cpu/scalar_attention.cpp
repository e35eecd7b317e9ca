// Attention of the Scalar level over F16 and F32 caches: one query head and one chunk at a time.
//
//   q (head_dim)   x  K of each block (head_dim, 16)  ->  scores (up to 256 positions of a chunk)
//   exp(score - largest)                              ->  weights, and their sum
//   weights        x  V of each block (16, head_dim)  ->  part (attention_parts.h)
//
// Reference: softmax attention in double, tests/kernels/attention_test.cpp.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/attention_parts.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/scalar_int8_attention.h"
#include "kernels/half_float.h"

namespace turnstile::kernels::scalar {
namespace {

float element(KvType type, const std::byte* base, std::size_t index) {
  if (type == KvType::F32) {
    float value = 0.0F;
    std::memcpy(&value, base + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, base + index * sizeof half, sizeof half);
  return half_to_float(half);
}

// Scores of the 16 positions of one block.
void score_block(const KvLayout& layout, const std::byte* keys, const float* q, float factor,
                 float* scores) {
  float sum[kKvBlockTokens] = {};
  for (int d = 0; d < layout.head_dim; ++d) {
    const std::size_t first = static_cast<std::size_t>(d) * kKvBlockTokens;
    for (int t = 0; t < kKvBlockTokens; ++t) {
      sum[t] += q[d] * element(layout.type, keys, first + static_cast<std::size_t>(t));
    }
  }
  for (int t = 0; t < kKvBlockTokens; ++t) scores[t] = sum[t] * factor;
}

void attend_chunk(const ChunkOfHead& chunk, const float* q, float* scores, float* part) {
  const KvLayout& layout = *chunk.layout;
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
  const float factor = 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
  for (int t = 0; t < chunk.count; t += kKvBlockTokens) {
    score_block(layout, chunk.head_block(t), q, factor, scores + t);
  }
  const float largest = *std::max_element(scores, scores + chunk.count);
  float sum = 0.0F;
  float* out = part + kPartHeader;
  std::fill_n(out, dim, 0.0F);
  for (int t = 0; t < chunk.count; ++t) {
    const float p = std::exp(scores[t] - largest);
    sum += p;
    const std::byte* values = chunk.head_block(t) + layout.plane_bytes();
    const std::size_t row = static_cast<std::size_t>(t % kKvBlockTokens) * dim;
    for (std::size_t d = 0; d < dim; ++d) out[d] += p * element(layout.type, values, row + d);
  }
  part[0] = largest;
  part[1] = sum;
}

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  assert(rows.q_heads % layout.kv_heads == 0 && "query heads form equal groups");
  assert(row_begin >= 0 && row_end <= rows.rows && "rows of this sequence");
  const int group = rows.q_heads / layout.kv_heads;
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
  float* running = scratch + kAttentionChunk;
  float* next = running + attention_part_floats(layout.head_dim);
  for (int r = row_begin; r < row_end; ++r) {
    const int visible = rows.first_position + r + 1;
    const int begin = rows.parts == nullptr ? 0 : rows.chunk_begin;
    const int end = rows.parts == nullptr ? attention_chunks(visible)
                                          : std::min(rows.chunk_end, attention_chunks(visible));
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const std::size_t head = static_cast<std::size_t>(h) * dim;
      const float* q = rows.q + static_cast<std::size_t>(r) * rows.q_stride + head;
      for (int c = begin; c < end; ++c) {
        const int first = c * kAttentionChunk;
        const ChunkOfHead chunk{&layout, layer_kv + layout.offset(0, 0, kv_head),
                                rows.blocks + first / kKvBlockTokens,
                                std::min(kAttentionChunk, visible - first)};
        float* part = rows.parts != nullptr ? attention_part(layout, rows, r, h, c)
                      : c == 0              ? running
                                            : next;
        if (layout.type == KvType::Int8) {
          attend_int8_chunk(chunk, q, scratch, part);
        } else {
          attend_chunk(chunk, q, scratch, part);
        }
        if (part == next) fold_attention_part(running, next, layout.head_dim);
      }
      if (rows.parts == nullptr) {
        finish_attention(running, layout.head_dim,
                         rows.out + static_cast<std::size_t>(r) * rows.out_stride + head);
      }
    }
  }
}

}  // namespace turnstile::kernels::scalar
