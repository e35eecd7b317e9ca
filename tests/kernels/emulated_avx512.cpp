// The products of the AVX-512 level compiled once more, on SIMDe's emulation of the instructions:
// their index logic and their bits are then checked on any host.
#include <immintrin.h>

#include "tests/kernels/emulated_avx512.h"

#include "tests/kernels/emulated_vectors.h"

#define avx512 emulated_avx512
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
