// Products for AVX-VNNI: as AVX-512 VNNI, on two registers of 8 outputs, a tile of one panel and up
// to three activation rows (vnni_matmul.inc). Those of F32, F16 and BF16 weights are AVX2's.
#include "kernels/cpu/avxvnni.h"

#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/avx2.h"

namespace turnstile::kernels::avxvnni {
namespace {

// 16 lanes as two registers.
struct Floats {
  __m256 part[2];
};
struct Ints {
  __m256i part[2];
};

struct Simd {
  using Floats = avxvnni::Floats;
  using Ints = avxvnni::Ints;
  static constexpr int kPanels = 1;     // of a tile
  static constexpr int kMaxTokens = 3;  // 6 integer and 6 float sums leave 4 registers

  static Floats zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
  static Floats set1(float value) { return {{_mm256_set1_ps(value), _mm256_set1_ps(value)}}; }
  static Floats load(const float* from) {
    return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}};
  }
  static void store(float* to, Floats v) {
    _mm256_storeu_ps(to, v.part[0]);
    _mm256_storeu_ps(to + 8, v.part[1]);
  }
  static Floats add(Floats a, Floats b) {
    return {{_mm256_add_ps(a.part[0], b.part[0]), _mm256_add_ps(a.part[1], b.part[1])}};
  }
  static Floats mul(Floats a, Floats b) {
    return {{_mm256_mul_ps(a.part[0], b.part[0]), _mm256_mul_ps(a.part[1], b.part[1])}};
  }
  static Floats fma(Floats a, Floats b, Floats c) {
    return {{_mm256_fmadd_ps(a.part[0], b.part[0], c.part[0]),
             _mm256_fmadd_ps(a.part[1], b.part[1], c.part[1])}};
  }
  static Floats negate(Floats v) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {{_mm256_xor_ps(v.part[0], sign), _mm256_xor_ps(v.part[1], sign)}};
  }
  static Floats to_floats(Ints v) {
    return {{_mm256_cvtepi32_ps(v.part[0]), _mm256_cvtepi32_ps(v.part[1])}};
  }
  static Floats halves_at(const std::uint8_t* from) {
    const auto* halves = reinterpret_cast<const __m128i*>(from);
    return {{_mm256_cvtph_ps(_mm_loadu_si128(halves)),
             _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))}};
  }

  static Ints zero_ints() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }
  static Ints set1_int(std::int32_t value) {
    return {{_mm256_set1_epi32(value), _mm256_set1_epi32(value)}};
  }
  static Ints bytes_at(const std::uint8_t* from) {
    const auto* bytes = reinterpret_cast<const __m256i*>(from);
    return {{_mm256_loadu_si256(bytes), _mm256_loadu_si256(bytes + 1)}};
  }
  static __m128i eight(const std::uint8_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  }
  static Ints unsigned_bytes_at(const std::uint8_t* from) {
    return {{_mm256_cvtepu8_epi32(eight(from)), _mm256_cvtepu8_epi32(eight(from + 8))}};
  }
  static Ints signed_bytes_at(const std::uint8_t* from) {
    return {{_mm256_cvtepi8_epi32(eight(from)), _mm256_cvtepi8_epi32(eight(from + 8))}};
  }
  static Ints broadcast_quad(const std::int8_t* q) {
    std::int32_t quad = 0;
    std::memcpy(&quad, q, sizeof quad);
    return set1_int(quad);
  }
  static Ints low_nibbles(Ints bytes) {
    const __m256i nibble = _mm256_set1_epi8(15);
    return {{_mm256_and_si256(bytes.part[0], nibble), _mm256_and_si256(bytes.part[1], nibble)}};
  }
  static Ints high_nibbles(Ints bytes) {
    return low_nibbles(
        {{_mm256_srli_epi16(bytes.part[0], 4), _mm256_srli_epi16(bytes.part[1], 4)}});
  }
  static Ints dot(Ints sum, Ints weights, Ints activations) {
    return {{_mm256_dpbusd_avx_epi32(sum.part[0], weights.part[0], activations.part[0]),
             _mm256_dpbusd_avx_epi32(sum.part[1], weights.part[1], activations.part[1])}};
  }
  static Ints mul_ints(Ints a, Ints b) {
    return {{_mm256_mullo_epi32(a.part[0], b.part[0]), _mm256_mullo_epi32(a.part[1], b.part[1])}};
  }
  static Ints add_ints(Ints a, Ints b) {
    return {{_mm256_add_epi32(a.part[0], b.part[0]), _mm256_add_epi32(a.part[1], b.part[1])}};
  }
};

#include "kernels/cpu/vnni_blocks.inc"
#include "kernels/cpu/vnni_matmul.inc"

}  // namespace

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode) {
  switch (w.type) {
    case WeightType::F32:
    case WeightType::F16:
    case WeightType::BF16:
      return avx2::matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
    default: return quantised_matmul(w, x, panel_begin, panel_end, out, out_stride, mode);
  }
}

}  // namespace turnstile::kernels::avxvnni
