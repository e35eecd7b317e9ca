// Norm, rotary positions, gate, quantisation and KV writes of the Scalar level.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/cpu/scalar.h"
#include "kernels/half_float.h"

namespace turnstile::kernels::scalar {
namespace {

// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer, ties to even,
// without a call into the maths library.
float round_to_even(float x) {
  constexpr float kMagic = 12582912.0F;
  return (x + kMagic) - kMagic;
}

void store_element(KvType type, std::byte* to, float value) {
  if (type == KvType::F32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  // Written so that NaN becomes a number, see kLargestHalf.
  const float below = value < kLargestHalf ? value : kLargestHalf;
  const float bounded = below > -kLargestHalf ? below : -kLargestHalf;
  const std::uint16_t half = float_to_half(bounded);
  std::memcpy(to, &half, sizeof half);
}

}  // namespace

void quantize(const ActivationRows& x, int row_begin, int row_end) {
  assert(x.cols % kQuantBlock == 0 && "activations are whole blocks");
  const int blocks = x.cols / kQuantBlock;
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row_begin) * blocks;
       at < static_cast<std::ptrdiff_t>(row_end) * blocks; ++at) {
    const float* values = x.f32 + at * kQuantBlock;
    std::int8_t* q = x.q + at * kQuantBlock;
    float largest = 0.0F;
    for (int c = 0; c < kQuantBlock; ++c) largest = std::max(largest, std::fabs(values[c]));
    const float scale = largest < kSmallestScaled ? 0.0F : largest / 127.0F;
    const float inverse = largest < kSmallestScaled ? 0.0F : 127.0F / largest;
    std::int32_t sum = 0;
    for (int c = 0; c < kQuantBlock; ++c) {
      q[c] = static_cast<std::int8_t>(round_to_even(values[c] * inverse));
      sum += q[c];
    }
    x.scale[at] = scale;
    x.scaled_sum[at] = scale * static_cast<float>(sum);
  }
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  double squares = 0.0;
  for (int i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const float mean = static_cast<float>(squares / n);
  const float factor = 1.0F / std::sqrt(mean + eps);
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void rope(float* row, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin) {
  for (int h = 0; h < heads; ++h) {
    float* head = row + static_cast<std::ptrdiff_t>(h) * head_dim;
    for (int i = 0; i < rotary_dim / 2; ++i) {
      const float even = head[2 * i];
      const float odd = head[2 * i + 1];
      head[2 * i] = even * cos[i] - odd * sin[i];
      head[2 * i + 1] = even * sin[i] + odd * cos[i];
    }
  }
}

void swiglu(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

void kv_write(const KvLayout& layout, std::byte* layer_kv, BlockId block, int slot, const float* k,
              const float* v) {
  assert(block < layout.block_count && slot >= 0 && slot < kKvBlockTokens &&
         "the slot is inside the pool");
  const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
  const std::size_t size = layout.element_bytes();
  const std::size_t at = static_cast<std::size_t>(slot);
  for (int h = 0; h < layout.kv_heads; ++h) {
    std::byte* keys = layer_kv + layout.offset(0, block, h);
    std::byte* values = keys + dim * kKvBlockTokens * size;
    for (std::size_t d = 0; d < dim; ++d) {
      const std::size_t from = static_cast<std::size_t>(h) * dim + d;
      store_element(layout.type, keys + (d * kKvBlockTokens + at) * size, k[from]);
      store_element(layout.type, values + (at * dim + d) * size, v[from]);
    }
  }
}

}  // namespace turnstile::kernels::scalar
