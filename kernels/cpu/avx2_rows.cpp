// Norm, rotary positions, gate, quantisation and KV writes of the AVX2 level, eight values at a
// time. Layouts: scalar_rows.cpp.
//
//   packing 32 integers into bytes       8 each:   a  b  c  d
//   (instructions pack within halves)    packed:   a0 b0 c0 d0 | a1 b1 c1 d1   (4 bytes each)
//                                        ordered:  a0 a1 b0 b1   c0 c1 d0 d1
//
// Reference: the Scalar level, bit for bit for what becomes bytes; loops in double for the norm and
// the gate, whose last bits differ. Lengths that no register divides: tests/kernels/rows_test.cpp.
#include <immintrin.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_exp.h"
#include "kernels/cpu/scalar.h"
#include "kernels/half_float.h"

namespace turnstile::kernels::avx2 {
namespace {

float sum_lanes(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

float max_lanes(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

std::int32_t sum_lanes(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

__m256 magnitude(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }

// Quantises 32 values; returns the sum of the integers.
std::int32_t quantize_block(const __m256* values, float inverse, std::int8_t* q) {
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i integers[4];
  for (int i = 0; i < 4; ++i) integers[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], factor));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(integers[0], integers[1]),
                                       _mm256_add_epi32(integers[2], integers[3]));
  // Packing works within 128-bit halves; the permutation restores the order of the columns.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(integers[0], integers[1]),
                                            _mm256_packs_epi32(integers[2], integers[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(packed, order));
  return sum_lanes(sum);
}

__m256 gated(__m256 gate, __m256 up) {
  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256 decay = exp8(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0F)));
  return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(one, decay)), up);
}

// Eight floats, clamped so that neither infinity nor NaN enters the cache.
__m256 half_range(const float* from) {
  const __m256 v = _mm256_min_ps(_mm256_loadu_ps(from), _mm256_set1_ps(kLargestHalf));
  return _mm256_max_ps(v, _mm256_set1_ps(-kLargestHalf));
}

__m128i to_halves(const float* from) {
  return _mm256_cvtps_ph(half_range(from), _MM_FROUND_TO_NEAREST_INT);
}

// `head_dim` floats as bytes; returns their scale (kv_block.h).
float to_bytes(const float* from, std::ptrdiff_t head_dim, std::int8_t* to) {
  __m256 sizes = _mm256_setzero_ps();
  for (std::ptrdiff_t d = 0; d < head_dim; d += 8) {
    sizes = _mm256_max_ps(sizes, magnitude(half_range(from + d)));
  }
  const float largest = max_lanes(sizes);
  const bool is_zero = largest < kSmallestScaled;
  const __m256 inverse = _mm256_set1_ps(is_zero ? 0.0F : 127.0F / largest);
  for (std::ptrdiff_t d = 0; d < head_dim; d += 8) {
    const __m256i wide = _mm256_cvtps_epi32(_mm256_mul_ps(half_range(from + d), inverse));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + d), _mm_packs_epi16(words, words));
  }
  return is_zero ? 0.0F : largest / 127.0F;
}

// One position of one kv head.
void write_int8(const KvLayout& layout, std::byte* head_block, int slot, const float* k,
                const float* v) {
  assert(layout.head_dim <= kMaxInt8HeadDim && "a head of bytes fits its place");
  const std::ptrdiff_t dim = layout.head_dim;
  auto* keys = reinterpret_cast<std::int8_t*>(head_block) + 2 * slot;
  auto* values = reinterpret_cast<std::int8_t*>(head_block + layout.plane_bytes()) +
                 slot / 2 * 2 * dim + slot % 2;
  auto* scales = reinterpret_cast<float*>(head_block + 2 * layout.plane_bytes());
  std::int8_t bytes[kMaxInt8HeadDim];
  scales[slot] = to_bytes(k, dim, bytes);
  for (std::ptrdiff_t d = 0; d < dim; d += 2) {
    std::memcpy(keys + d * kKvBlockTokens, bytes + d, 2);
  }
  scales[kKvBlockTokens + slot] = to_bytes(v, dim, bytes);
  for (std::ptrdiff_t d = 0; d < dim; ++d) values[2 * d] = bytes[d];
}

}  // namespace

void quantize(const ActivationRows& x, int row_begin, int row_end) {
  assert(x.cols % kQuantBlock == 0 && "activations are whole blocks");
  const std::ptrdiff_t blocks = x.cols / kQuantBlock;
  for (std::ptrdiff_t at = row_begin * blocks; at < row_end * blocks; ++at) {
    __m256 values[4];
    for (int i = 0; i < 4; ++i) values[i] = _mm256_loadu_ps(x.f32 + at * kQuantBlock + 8 * i);
    const float largest =
        max_lanes(_mm256_max_ps(_mm256_max_ps(magnitude(values[0]), magnitude(values[1])),
                                _mm256_max_ps(magnitude(values[2]), magnitude(values[3]))));
    const bool tiny = largest < kSmallestScaled;
    const float scale = tiny ? 0.0F : largest / 127.0F;
    const float inverse = tiny ? 0.0F : 127.0F / largest;
    const std::int32_t sum = quantize_block(values, inverse, x.q + at * kQuantBlock);
    x.scale[at] = scale;
    x.sum[at] = sum;
    x.scaled_sum[at] = scale * static_cast<float>(sum);
  }
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  __m256 first = _mm256_setzero_ps();
  __m256 second = _mm256_setzero_ps();
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + i + 8);
    first = _mm256_fmadd_ps(a, a, first);
    second = _mm256_fmadd_ps(b, b, second);
  }
  float squares = sum_lanes(_mm256_add_ps(first, second));
  for (; i < n; ++i) squares += x[i] * x[i];
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
  const __m256 factors = _mm256_set1_ps(factor);
  for (i = 0; i + 8 <= n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), factors);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void rope(float* row, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin) {
  for (int h = 0; h < heads; ++h) {
    float* head = row + static_cast<std::ptrdiff_t>(h) * head_dim;
    int i = 0;
    for (; i + 4 <= rotary_dim / 2; i += 4) {
      const __m128 c = _mm_loadu_ps(cos + i);
      const __m128 s = _mm_loadu_ps(sin + i);
      const __m256 cosines = _mm256_set_m128(_mm_unpackhi_ps(c, c), _mm_unpacklo_ps(c, c));
      const __m256 sines = _mm256_set_m128(_mm_unpackhi_ps(s, s), _mm_unpacklo_ps(s, s));
      const __m256 pairs = _mm256_loadu_ps(head + 2 * i);
      const __m256 swapped = _mm256_permute_ps(pairs, 0xb1);
      // Even lanes subtract, odd lanes add: (a cos - b sin, b cos + a sin).
      _mm256_storeu_ps(head + 2 * i,
                       _mm256_fmaddsub_ps(pairs, cosines, _mm256_mul_ps(swapped, sines)));
    }
    for (; i < rotary_dim / 2; ++i) {
      const float even = head[2 * i];
      const float odd = head[2 * i + 1];
      head[2 * i] = even * cos[i] - odd * sin[i];
      head[2 * i + 1] = odd * cos[i] + even * sin[i];
    }
  }
}

void swiglu(const float* gate, const float* up, int n, float* out) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, gated(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  }
  if (i == n) return;
  // The last values take the same vector code, so that their bits do not depend on the range.
  alignas(32) float last_gate[8] = {};
  alignas(32) float last_up[8] = {};
  for (int k = 0; i + k < n; ++k) {
    last_gate[k] = gate[i + k];
    last_up[k] = up[i + k];
  }
  _mm256_store_ps(last_gate, gated(_mm256_load_ps(last_gate), _mm256_load_ps(last_up)));
  for (int k = 0; i + k < n; ++k) out[i + k] = last_gate[k];
}

void kv_write(const KvLayout& layout, std::byte* layer_kv, BlockId block, int slot, const float* k,
              const float* v) {
  if (layout.type == KvType::F32) {
    scalar::kv_write(layout, layer_kv, block, slot, k, v);
    return;
  }
  assert(block < layout.block_count && slot >= 0 && slot < kKvBlockTokens &&
         "the slot is inside the pool");
  assert(layout.head_dim % 8 == 0 && "whole vectors");
  const std::ptrdiff_t dim = layout.head_dim;
  for (int h = 0; h < layout.kv_heads; ++h) {
    std::byte* head_block = layer_kv + layout.offset(0, block, h);
    if (layout.type == KvType::Int8) {
      write_int8(layout, head_block, slot, k + h * dim, v + h * dim);
      continue;
    }
    auto* keys = reinterpret_cast<std::uint16_t*>(head_block);
    std::uint16_t* values = keys + (kKvBlockTokens + slot) * dim;
    for (std::ptrdiff_t d = 0; d < dim; d += 8) {
      alignas(16) std::uint16_t column[8];
      _mm_store_si128(reinterpret_cast<__m128i*>(column), to_halves(k + h * dim + d));
      for (int i = 0; i < 8; ++i) keys[(d + i) * kKvBlockTokens + slot] = column[i];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(values + d), to_halves(v + h * dim + d));
    }
  }
}

}  // namespace turnstile::kernels::avx2
