// The AVX-VNNI level compiled once more with its one instruction in plain loops, so that its index
// logic and its bits are checked on any host with AVX2. Other AVX2 code runs as it is.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2.h"
#include "kernels/kernel_table.h"
#include "tests/kernels/emulated_avxvnni.h"

namespace {

__m256i emulated_dpbusd(__m256i sum, __m256i weights, __m256i activations) {
  std::int32_t total[8];
  std::uint8_t unsigned_bytes[32];
  std::int8_t signed_bytes[32];
  std::memcpy(total, &sum, sizeof total);
  std::memcpy(unsigned_bytes, &weights, sizeof unsigned_bytes);
  std::memcpy(signed_bytes, &activations, sizeof signed_bytes);
  for (int i = 0; i < 32; ++i) total[i / 4] += unsigned_bytes[i] * signed_bytes[i];
  std::memcpy(&sum, total, sizeof total);
  return sum;
}

}  // namespace
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32(sum, weights, activations) \
  emulated_dpbusd(sum, weights, activations)

#define avxvnni emulated_avxvnni
#include "kernels/cpu/avxvnni_matmul.cpp"
#undef avxvnni

namespace turnstile::kernels {

const KernelTable& emulated_avxvnni_table() {
  static const KernelTable table = [] {
    KernelTable made = kernel_table(Level::Scalar, Numerics::Int8);
    made.level = Level::AvxVnni;
    made.name = "avx-vnni int8, emulated";
    made.matmul = emulated_avxvnni::matmul;
    return made;
  }();
  return table;
}

}  // namespace turnstile::kernels
