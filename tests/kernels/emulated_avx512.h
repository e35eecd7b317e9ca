// emulated_avx512.h: the AVX-512 level's products and attention on emulated instructions, with the
// Scalar level's other operations.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

const KernelTable& emulated_avx512_table();

}  // namespace turnstile::kernels
