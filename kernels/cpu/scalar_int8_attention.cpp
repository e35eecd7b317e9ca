#include "kernels/cpu/scalar_int8_attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/activations.h"
#include "kernels/attention_parts.h"
#include "kernels/cpu/attention_tile.h"

namespace turnstile::kernels::scalar {
namespace {

// Values as 16-bit integers and one scale.
struct Scaled {
  float scale;
  float inverse;
};

Scaled scaled_to(float largest, float integer) {
  if (largest < kSmallestScaled) return {0.0F, 0.0F};
  return {largest / integer, integer / largest};
}

float bounded_query(float value) {
  const float below = value < kLargestQuery ? value : kLargestQuery;
  return below > -kLargestQuery ? below : -kLargestQuery;
}

std::int16_t rounded(float value) {
  constexpr float kMagic = 12582912.0F;  // rounds |value| < 2^22 to even, as scalar_rows.cpp says
  return static_cast<std::int16_t>((value + kMagic) - kMagic);
}

float scale_at(const KvLayout& layout, const std::byte* head_block, int plane, int slot) {
  float scale = 0.0F;
  std::memcpy(&scale,
              head_block + 2 * layout.plane_bytes() +
                  sizeof(float) * static_cast<std::size_t>(plane * kKvBlockTokens + slot),
              sizeof scale);
  return scale;
}

std::int32_t byte_at(const std::byte* plane, std::size_t index) {
  return static_cast<std::int8_t>(plane[index]);
}

// Sixteen sums, one for each slot of a block, added in halves: what vectors of any width can do.
struct SlotSums {
  float slot[kKvBlockTokens] = {};

  float total() const {
    float sums[kKvBlockTokens];
    std::copy(std::begin(slot), std::end(slot), sums);
    for (int half = kKvBlockTokens / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }
};

}  // namespace

void attend_int8_chunk(const ChunkOfHead& chunk, const float* q, float* scores, float* part) {
  const KvLayout& layout = *chunk.layout;
  assert(layout.head_dim <= kMaxInt8HeadDim && "sums of a head fit 32 bits");
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);

  float largest = 0.0F;
  for (std::size_t d = 0; d < dim; ++d) largest = std::max(largest, bounded_query(std::fabs(q[d])));
  const Scaled query = scaled_to(largest, kInt16Largest);
  std::int16_t q16[kMaxInt8HeadDim];
  for (std::size_t d = 0; d < dim; ++d) q16[d] = rounded(bounded_query(q[d]) * query.inverse);

  const float factor = query.scale * (1.0F / std::sqrt(static_cast<float>(layout.head_dim)));
  for (int t = 0; t < chunk.count; ++t) {
    const std::byte* keys = chunk.head_block(t);
    const std::size_t slot = static_cast<std::size_t>(t % kKvBlockTokens);
    std::int32_t sum = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      sum += q16[d] * byte_at(keys, d / 2 * 2 * kKvBlockTokens + slot * 2 + d % 2);
    }
    scores[t] =
        static_cast<float>(sum) * (scale_at(layout, keys, 0, static_cast<int>(slot)) * factor);
  }

  part[0] = *std::max_element(scores, scores + chunk.count);
  SlotSums sums;
  float heaviest = 0.0F;
  for (int t = 0; t < chunk.count; ++t) {
    const int slot = t % kKvBlockTokens;
    const float weight = attention_exp(scores[t] - part[0]);
    sums.slot[slot] += weight;
    scores[t] = weight * scale_at(layout, chunk.head_block(t), 1, slot);
    heaviest = std::max(heaviest, scores[t]);
  }
  part[1] = sums.total();

  const Scaled weights = scaled_to(heaviest, kInt16Largest);
  std::int16_t p16[kAttentionChunk];
  for (int t = 0; t < chunk.count; ++t) p16[t] = rounded(scores[t] * weights.inverse);
  for (std::size_t d = 0; d < dim; ++d) {
    std::int32_t sum = 0;
    for (int t = 0; t < chunk.count; ++t) {
      const std::byte* values = chunk.head_block(t) + layout.plane_bytes();
      const std::size_t slot = static_cast<std::size_t>(t % kKvBlockTokens);
      sum += p16[t] * byte_at(values, (slot / 2 * dim + d) * 2 + slot % 2);
    }
    part[static_cast<std::size_t>(kPartHeader) + d] = static_cast<float>(sum) * weights.scale;
  }
}

}  // namespace turnstile::kernels::scalar
