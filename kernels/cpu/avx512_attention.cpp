// Attention of the AVX-512 level: the 16 positions of a block are one register.
#include <immintrin.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/scalar.h"

namespace turnstile::kernels::avx512 {
namespace {

// Eight lanes, for the end of a head whose size is not a multiple of 16.
struct Narrow {
  using Vec = __m256;
  static constexpr int kLanes = 8;
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float value) { return _mm256_set1_ps(value); }
  static Vec load(const float* from) { return _mm256_loadu_ps(from); }
  static Vec load(const std::uint16_t* halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
  }
  static void store(float* to, Vec v) { _mm256_storeu_ps(to, v); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
};

struct Simd {
  using Vec = __m512;
  static constexpr int kLanes = 16;

  // 32 registers: up to 24 sums, 2 of K or V, 1 broadcast.
  static constexpr int kMaxShared = 12;
  // Few vectors alone would wait for the latency of each sum.
  static constexpr int blocks_together(int shared) { return shared <= 3 ? 4 : shared <= 6 ? 2 : 1; }
  static constexpr int columns_together(int shared) { return shared <= 6 ? 4 : 2; }

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float value) { return _mm512_set1_ps(value); }
  static Vec load(const float* from) { return _mm512_loadu_ps(from); }
  static Vec load(const std::uint16_t* halves) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
  }
  static void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

  // As avx2_exp.h, with the exponent applied by one instruction.
  static Vec exp(Vec x) {
    x = _mm512_min_ps(_mm512_max_ps(x, set1(-87.0F)), set1(88.0F));
    const Vec n = _mm512_roundscale_ps(_mm512_mul_ps(x, set1(1.44269504F)),
                                       _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Vec r = _mm512_fnmadd_ps(n, set1(0.693359375F), x);
    r = _mm512_fnmadd_ps(n, set1(-2.12194440e-4F), r);
    Vec p = set1(1.9875691500e-4F);
    p = fma(p, r, set1(1.3981999507e-3F));
    p = fma(p, r, set1(8.3334519073e-3F));
    p = fma(p, r, set1(4.1665795894e-2F));
    p = fma(p, r, set1(1.6666665459e-1F));
    p = fma(p, r, set1(0.5F));
    p = fma(_mm512_mul_ps(p, r), r, add(r, set1(1.0F)));
    return _mm512_scalef_ps(p, n);
  }

  // Lanes [0, count) of v, the others from `rest`.
  static Vec first_lanes(Vec v, int count, Vec rest) {
    const int bounded = count < 0 ? 0 : count > kLanes ? kLanes : count;
    return _mm512_mask_mov_ps(rest, static_cast<__mmask16>((1U << bounded) - 1U), v);
  }
  static float first(Vec v) { return _mm_cvtss_f32(_mm512_castps512_ps128(v)); }
  static float sum_lanes(Vec v) {
    alignas(64) float lanes[kLanes];
    _mm512_store_ps(lanes, v);
    const __m256 half = _mm256_add_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float max_lanes(Vec v) {
    alignas(64) float lanes[kLanes];
    _mm512_store_ps(lanes, v);
    const __m256 half = _mm256_max_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
};

#include "kernels/cpu/tiled_attention.inc"

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  if (layout.type == KvType::F32) {  // the reference numerics' cache
    scalar::attend(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
    return;
  }
  attend_halves(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
}

}  // namespace turnstile::kernels::avx512
