// Attention of the AVX2 level: the 16 positions of a block are two registers of 8, and dimensions
// of V are taken 8 at a time. What is done with them is in tiled_attention.inc.
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
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_exp.h"
#include "kernels/cpu/scalar.h"

namespace turnstile::kernels::avx2 {
namespace {

struct Simd {
  using Vec = __m256;
  using Ints = __m256i;
  static constexpr int kLanes = 8;

  // 16 registers: 2 * 6 sums, 2 of K or V, 1 broadcast.
  static constexpr int kMaxShared = 6;
  // Few vectors alone would wait for the latency of each sum, which integers have less of; they
  // need a register for each product.
  static constexpr int blocks_together(int shared, bool integers) {
    return shared <= (integers ? 2 : 3) ? 2 : 1;
  }
  static constexpr int columns_together(int shared, bool integers) {
    return shared <= 1 ? (integers ? 4 : 8) : shared <= (integers ? 2 : 3) ? 4 : 2;
  }

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float value) { return _mm256_set1_ps(value); }
  static Vec load(const float* from) { return _mm256_loadu_ps(from); }
  static Vec load(const std::uint16_t* halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
  }
  static void store(float* to, Vec v) { _mm256_storeu_ps(to, v); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec magnitude(Vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec exp(Vec a) { return exp8(a); }

  // Lanes [0, count) of v, the others from `rest`.
  static Vec first_lanes(Vec v, int count, Vec rest) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i chosen = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
    return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(chosen));
  }
  static float first(Vec v) { return _mm256_cvtss_f32(v); }
  static float sum_lanes(Vec v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
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
using Narrow = Simd;

#include "kernels/cpu/tiled_attention.inc"

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  attend_any(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
}

}  // namespace turnstile::kernels::avx2
