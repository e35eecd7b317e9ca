// The products on tiles of bf16 compiled once more, the tiles on emulated_tiles.h and the vectors
// on SIMDe: their index logic and their bits are then checked on any host.
#include <immintrin.h>

#include "tests/kernels/emulated_amx_bf16.h"
#include "tests/kernels/emulated_tiles.h"
#include "tests/kernels/emulated_vectors.h"

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig turnstile::kernels::emulated_tiles::load_config
#define _tile_release turnstile::kernels::emulated_tiles::release
#define _tile_zero turnstile::kernels::emulated_tiles::zero
#define _tile_loadd turnstile::kernels::emulated_tiles::load
#define _tile_stored turnstile::kernels::emulated_tiles::store
#define _tile_dpbf16ps turnstile::kernels::emulated_tiles::dpbf16ps

#define amx emulated_amx_bf16
#include "kernels/cpu/amx_bf16_matmul.cpp"
#undef amx

namespace turnstile::kernels {

const KernelTable& emulated_amx_bf16_table() {
  static const KernelTable table = [] {
    KernelTable made = kernel_table(Level::Scalar, Numerics::Bf16);
    made.level = Level::Amx;
    made.name = "amx bf16, emulated";
    made.quantize = emulated_amx_bf16::quantize_bf16;
    made.matmul = emulated_amx_bf16::matmul_bf16;
    return made;
  }();
  return table;
}

}  // namespace turnstile::kernels
