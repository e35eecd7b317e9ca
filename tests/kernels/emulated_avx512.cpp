// The AVX-512 level compiled once more, on SIMDe's emulation of the instructions: its index logic
// and its bits are then checked on any host.
#include <immintrin.h>

#include "tests/kernels/emulated_avx512.h"

// Inlined, the emulation takes a compiler ten minutes.
#define SIMDE_NO_INLINE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cmath>
#include <cstring>

// SIMDe 0.7.4 lacks the two conversions, and rounds twice in a "fused" multiply-add.
namespace {

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

}  // namespace
#undef _mm256_fmadd_ps
#undef _mm512_fmadd_ps
#define _mm256_fmadd_ps(a, b, c) emulated_fmadd<simde__m256>(a, b, c)
#define _mm512_fmadd_ps(a, b, c) emulated_fmadd<simde__m512>(a, b, c)
#define _mm512_cvtph_ps(halves) emulated_cvtph_ps(halves)
#define _mm512_cvtepi32_ps(integers) emulated_cvtepi32_ps(integers)

#define avx512 emulated_avx512
#include "kernels/cpu/avx512_attention.cpp"
#include "kernels/cpu/avx512_matmul.cpp"
#undef avx512

namespace turnstile::kernels {

const KernelTable& emulated_avx512_table() {
  static const KernelTable table = [] {
    KernelTable made = kernel_table(Level::Scalar, Numerics::Int8);
    made.level = Level::Avx512Vnni;
    made.name = "avx512-vnni int8, emulated";
    made.matmul = emulated_avx512::matmul;
    made.attend = emulated_avx512::attend;
    return made;
  }();
  return table;
}

}  // namespace turnstile::kernels
