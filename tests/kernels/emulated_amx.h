// emulated_amx.h: the AMX level's products on emulated instructions, with the Scalar level's other
// operations.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

const KernelTable& emulated_amx_table();

}  // namespace turnstile::kernels
