// Norm, rotary positions, gate, quantisation and KV writes of the Scalar level.
//
//   rope, one head        | x0 x1 | x2 x3 | ..    rotary_dim | .. |     pair i turns by angle i,
//                           pair 0  pair 1                   stays      what is behind stays
//   quantize, one block   32 floats -> 32 bytes, their scale, scale * sum of the bytes
//   kv_write, one head    (head_dim) -> a column of K, a row of V; in pairs for bytes (kv_block.h)
//
// Reference: hand values and loops in double, tests/kernels/rows_test.cpp.
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

// Written so that NaN becomes a number, see kLargestHalf.
float half_range(float value) {
  const float below = value < kLargestHalf ? value : kLargestHalf;
  return below > -kLargestHalf ? below : -kLargestHalf;
}

void store_element(KvType type, std::byte* to, float value) {
  if (type == KvType::F32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t half = float_to_half(half_range(value));
  std::memcpy(to, &half, sizeof half);
}

// One head of one position as bytes, and its scale. A key's bytes are pairs of dimensions, 32 bytes
// apart; a value's are every second byte (kv_block.h).
float store_bytes(const float* from, int head_dim, bool is_key, std::byte* to) {
  float largest = 0.0F;
  for (int d = 0; d < head_dim; ++d) largest = std::max(largest, std::fabs(half_range(from[d])));
  const float scale = largest < kSmallestScaled ? 0.0F : largest / 127.0F;
  const float inverse = largest < kSmallestScaled ? 0.0F : 127.0F / largest;
  for (int d = 0; d < head_dim; ++d) {
    const auto q = static_cast<std::int8_t>(round_to_even(half_range(from[d]) * inverse));
    to[is_key ? d / 2 * 2 * kKvBlockTokens + d % 2 : 2 * d] = static_cast<std::byte>(q);
  }
  return scale;
}

// One position of one kv head.
void write_int8(const KvLayout& layout, std::byte* keys, std::size_t slot, const float* k,
                const float* v) {
  std::byte* values = keys + layout.plane_bytes();
  std::byte* scales = values + layout.plane_bytes();
  const std::size_t pair_bytes = 2 * static_cast<std::size_t>(layout.head_dim);
  const float k_scale = store_bytes(k, layout.head_dim, true, keys + 2 * slot);
  const float v_scale =
      store_bytes(v, layout.head_dim, false, values + slot / 2 * pair_bytes + slot % 2);
  std::memcpy(scales + sizeof(float) * slot, &k_scale, sizeof k_scale);
  std::memcpy(scales + sizeof(float) * (kKvBlockTokens + slot), &v_scale, sizeof v_scale);
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
    x.sum[at] = sum;
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
    if (layout.type == KvType::Int8) {
      const std::size_t head = static_cast<std::size_t>(h) * dim;
      write_int8(layout, keys, at, k + head, v + head);
      continue;
    }
    std::byte* values = keys + layout.plane_bytes();
    for (std::size_t d = 0; d < dim; ++d) {
      const std::size_t from = static_cast<std::size_t>(h) * dim + d;
      store_element(layout.type, keys + (d * kKvBlockTokens + at) * size, k[from]);
      store_element(layout.type, values + (at * dim + d) * size, v[from]);
    }
  }
}

}  // namespace turnstile::kernels::scalar
