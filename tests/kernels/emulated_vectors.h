// emulated_vectors.h: AVX-512 instructions under their own names on any host, from SIMDe. Include
// it after <immintrin.h> and before the source that is compiled once more.
#pragma once

#include <immintrin.h>

// Inlined, the emulation takes a compiler ten minutes.
#define SIMDE_NO_INLINE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cmath>
#include <cstdint>
#include <cstring>

// SIMDe 0.7.4 lacks these conversions, and rounds twice in a "fused" multiply-add.
namespace {

// Sixteen small integers as 32-bit ones.
template <typename Small, typename From>
simde__m512i emulated_extend(From from) {
  static_assert(sizeof(From) == 16 * sizeof(Small));
  Small in[16];
  std::int32_t out[16];
  std::memcpy(in, &from, sizeof in);
  for (int i = 0; i < 16; ++i) out[i] = in[i];
  simde__m512i integers;
  std::memcpy(&integers, out, sizeof out);
  return integers;
}

simde__m512 emulated_cvtph_ps(simde__m256i halves) {
  simde__m128i half[2];
  std::memcpy(half, &halves, sizeof halves);
  const simde__m256 parts[2] = {simde_mm256_cvtph_ps(half[0]), simde_mm256_cvtph_ps(half[1])};
  simde__m512 floats;
  std::memcpy(&floats, parts, sizeof floats);
  return floats;
}

simde__m512 emulated_cvtepi32_ps(simde__m512i integers) {
  std::int32_t in[16];
  float out[16];
  std::memcpy(in, &integers, sizeof in);
  for (int i = 0; i < 16; ++i) out[i] = static_cast<float>(in[i]);
  simde__m512 floats;
  std::memcpy(&floats, out, sizeof floats);
  return floats;
}

template <typename Vector>
Vector emulated_fmadd(Vector a, Vector b, Vector c) {
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  float x[kLanes], y[kLanes], z[kLanes];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  std::memcpy(z, &c, sizeof c);
  for (std::size_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  std::memcpy(&c, z, sizeof c);
  return c;
}

// The low halves of sixteen integers.
simde__m256i emulated_cvtepi32_epi16(simde__m512i integers) {
  std::int32_t in[16];
  std::int16_t out[16];
  std::memcpy(in, &integers, sizeof in);
  for (int i = 0; i < 16; ++i) out[i] = static_cast<std::int16_t>(in[i]);
  simde__m256i words;
  std::memcpy(&words, out, sizeof out);
  return words;
}

}  // namespace
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu8_epi32(bytes) emulated_extend<std::uint8_t>(bytes)
#define _mm512_cvtepi8_epi32(bytes) emulated_extend<std::int8_t>(bytes)
#define _mm512_cvtepu16_epi32(halves) emulated_extend<std::uint16_t>(halves)
#undef _mm256_fmadd_ps
#undef _mm512_fmadd_ps
#define _mm256_fmadd_ps(a, b, c) emulated_fmadd<simde__m256>(a, b, c)
#define _mm512_fmadd_ps(a, b, c) emulated_fmadd<simde__m512>(a, b, c)
#define _mm512_cvtph_ps(halves) emulated_cvtph_ps(halves)
#define _mm512_cvtepi32_epi16(integers) emulated_cvtepi32_epi16(integers)
#define _mm512_cvtepi32_ps(integers) emulated_cvtepi32_ps(integers)
