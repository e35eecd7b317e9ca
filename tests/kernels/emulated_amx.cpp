// The AMX level compiled once more, its tiles on emulated_tiles.h and its vectors on SIMDe: its
// index logic and its bits are then checked on any host.
#include <immintrin.h>

#include "tests/kernels/emulated_amx.h"
#include "tests/kernels/emulated_avx512.h"
#include "tests/kernels/emulated_tiles.h"
#include "tests/kernels/emulated_vectors.h"

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#define _tile_loadconfig turnstile::kernels::emulated_tiles::load_config
#define _tile_release turnstile::kernels::emulated_tiles::release
#define _tile_zero turnstile::kernels::emulated_tiles::zero
#define _tile_loadd turnstile::kernels::emulated_tiles::load
#define _tile_stored turnstile::kernels::emulated_tiles::store
#define _tile_dpbsud turnstile::kernels::emulated_tiles::dpbsud

// What tiles do not help goes to the emulated AVX-512 level.
#define avx512 emulated_avx512
#define amx emulated_amx
#include "kernels/cpu/amx_matmul.cpp"
#undef amx
#undef avx512

namespace turnstile::kernels {

const KernelTable& emulated_amx_table() {
  static const KernelTable table = [] {
    KernelTable made = emulated_avx512_table();
    made.level = Level::Amx;
    made.name = "amx int8, emulated";
    made.matmul = emulated_amx::matmul;
    return made;
  }();
  return table;
}

}  // namespace turnstile::kernels
