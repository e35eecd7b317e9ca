// Attention of the AVX-512 level: the 16 positions of a block are one register. Dimensions of V are
// taken 16 at a time, and the last 8 of a head like AVX2's. What is done with them is in
// tiled_attention.inc.
#include <immintrin.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/activations.h"
#include "kernels/attention_parts.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/scalar.h"

namespace turnstile::kernels::avx512 {
namespace {

// Eight lanes, for the end of a head whose size is not a multiple of 16.
struct Narrow {
  using Vec = __m256;
  using Ints = __m256i;
  static constexpr int kLanes = 8;
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float value) { return _mm256_set1_ps(value); }
  static Vec load(const float* from) { return _mm256_loadu_ps(from); }
  static Vec load(const std::uint16_t* halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
  }
  static void store(float* to, Vec v) { _mm256_storeu_ps(to, v); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec magnitude(Vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static float max_lanes(Vec v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }

  static Ints zero_ints() { return _mm256_setzero_si256(); }
  static Ints set1_pair(std::int32_t pair) { return _mm256_set1_epi32(pair); }
  static Ints load_pairs(const std::byte* bytes) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  }
  static Ints add_pair_products(Ints a, Ints b, Ints sum) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
  static Vec to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static void store_rounded(std::int16_t* to, Vec v) {
    const __m256i integers = _mm256_cvtps_epi32(v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_packs_epi32(_mm256_castsi256_si128(integers),
                                     _mm256_extracti128_si256(integers, 1)));
  }
};

struct Simd {
  using Vec = __m512;
  using Ints = __m512i;
  static constexpr int kLanes = 16;

  // 32 registers: up to 24 sums, 2 of K or V, 1 broadcast.
  static constexpr int kMaxShared = 12;
  // Few vectors alone would wait for the latency of each sum.
  static constexpr int blocks_together(int shared, bool) {
    return shared <= 3 ? 4 : shared <= 6 ? 2 : 1;
  }
  static constexpr int columns_together(int shared, bool) { return shared <= 6 ? 4 : 2; }

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

  // As attention_exp(), step for step.
  static Vec exp(Vec x) {
    const Vec magic = set1(12582912.0F);
    x = _mm512_min_ps(_mm512_max_ps(x, set1(-87.0F)), set1(88.0F));
    const Vec shifted = add(mul(x, set1(1.44269504F)), magic);
    const Vec minus_n = sub(magic, shifted);
    Vec r = fma(minus_n, set1(0.693359375F), x);
    r = fma(minus_n, set1(-2.12194440e-4F), r);
    const Vec r2 = mul(r, r);
    const Vec high = fma(set1(1.9875691500e-4F), r, set1(1.3981999507e-3F));
    const Vec middle = fma(set1(8.3334519073e-3F), r, set1(4.1665795894e-2F));
    const Vec low = fma(set1(1.6666665459e-1F), r, set1(0.5F));
    Vec p = fma(fma(high, r2, middle), r2, low);
    p = fma(p, r2, add(r, set1(1.0F)));
    return _mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
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
    return Narrow::max_lanes(_mm256_max_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8)));
  }

  static Ints zero_ints() { return _mm512_setzero_si512(); }
  static Ints set1_pair(std::int32_t pair) { return _mm512_set1_epi32(pair); }
  static Ints load_pairs(const std::byte* bytes) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  }
  static Ints add_pair_products(Ints a, Ints b, Ints sum) {
    return _mm512_dpwssd_epi32(sum, a, b);
  }
  static Vec to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
  // The magic number leaves the integer in the lowest bits.
  static void store_rounded(std::int16_t* to, Vec v) {
    const Ints integers = _mm512_castps_si512(add(v, set1(12582912.0F)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(integers));
  }
};

#include "kernels/cpu/tiled_attention.inc"

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  attend_any(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
}

}  // namespace turnstile::kernels::avx512
