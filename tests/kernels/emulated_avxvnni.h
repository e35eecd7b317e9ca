// emulated_avxvnni.h: the AVX-VNNI level's products on AVX2 and one emulated instruction, with the
// Scalar level's other operations. Needs a CPU with AVX2.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

const KernelTable& emulated_avxvnni_table();

}  // namespace turnstile::kernels
