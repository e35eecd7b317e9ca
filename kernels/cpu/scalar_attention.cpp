// Attention of the Scalar level: one query head at a time, softmax kept running over chunks.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/scalar.h"
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

struct Running {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
};

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

// One chunk of `count` visible positions; `head_base(block index)` is the head block.
template <typename HeadBase>
void attend_chunk(const KvLayout& layout, HeadBase head_base, const float* q, int first, int count,
                  Running& running, float* scores, float* out) {
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
  const float factor = 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
  for (int t = 0; t < count; t += kKvBlockTokens) {
    score_block(layout, head_base((first + t) / kKvBlockTokens), q, factor, scores + t);
  }
  const float largest = std::max(running.largest, *std::max_element(scores, scores + count));
  const float rescale = std::exp(running.largest - largest);
  running.largest = largest;
  running.sum *= rescale;
  for (std::size_t d = 0; d < dim; ++d) out[d] *= rescale;
  for (int t = 0; t < count; ++t) {
    const float p = std::exp(scores[t] - largest);
    running.sum += p;
    const std::byte* values = head_base((first + t) / kKvBlockTokens) +
                              dim * kKvBlockTokens * layout.element_bytes();
    const std::size_t row = static_cast<std::size_t>((first + t) % kKvBlockTokens) * dim;
    for (std::size_t d = 0; d < dim; ++d) out[d] += p * element(layout.type, values, row + d);
  }
}

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  assert(rows.q_heads % layout.kv_heads == 0 && "query heads form equal groups");
  assert(row_begin >= 0 && row_end <= rows.rows && "rows of this sequence");
  const int group = rows.q_heads / layout.kv_heads;
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
  const auto head_base = [&](int block_index) {
    return layer_kv + layout.offset(0, rows.blocks[block_index], kv_head);
  };
  for (int r = row_begin; r < row_end; ++r) {
    const int visible = rows.first_position + r + 1;
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const std::size_t head = static_cast<std::size_t>(h) * dim;
      const float* q = rows.q + static_cast<std::size_t>(r) * rows.q_stride + head;
      float* out = rows.out + static_cast<std::size_t>(r) * rows.out_stride + head;
      std::fill_n(out, layout.head_dim, 0.0F);
      Running running;
      for (int first = 0; first < visible; first += kAttentionChunk) {
        attend_chunk(layout, head_base, q, first, std::min(kAttentionChunk, visible - first),
                     running, scratch, out);
      }
      for (int d = 0; d < layout.head_dim; ++d) out[d] /= running.sum;
    }
  }
}

}  // namespace turnstile::kernels::scalar
