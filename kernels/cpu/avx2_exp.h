// avx2_exp.h: exp of eight floats. For the AVX2 translation units only; each gets its own copy.
//
// Range reduction to [-ln2/2, ln2/2] in two parts of ln2, then a polynomial (the minimax one of
// Cephes' expf, S. Moshier), in the order of attention_parts.h. Relative error below 2e-7 for x in
// [-87, 88], exactly 1 at 0; outside that range x is clamped to it.
#pragma once

#include <immintrin.h>

namespace turnstile::kernels::avx2 {
namespace {

inline __m256 exp8(__m256 x) {
  x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-87.0F)), _mm256_set1_ps(88.0F));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
  const __m256 r2 = _mm256_mul_ps(r, r);
  const __m256 high =
      _mm256_fmadd_ps(_mm256_set1_ps(1.9875691500e-4F), r, _mm256_set1_ps(1.3981999507e-3F));
  const __m256 middle =
      _mm256_fmadd_ps(_mm256_set1_ps(8.3334519073e-3F), r, _mm256_set1_ps(4.1665795894e-2F));
  const __m256 low = _mm256_fmadd_ps(_mm256_set1_ps(1.6666665459e-1F), r, _mm256_set1_ps(0.5F));
  __m256 p = _mm256_fmadd_ps(_mm256_fmadd_ps(high, r2, middle), r2, low);
  p = _mm256_fmadd_ps(p, r2, _mm256_add_ps(r, _mm256_set1_ps(1.0F)));
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

}  // namespace
}  // namespace turnstile::kernels::avx2
