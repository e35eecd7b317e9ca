// emulated_amx_bf16.h: products on AMX tiles of bf16 on emulated instructions, with the Scalar
// level's other operations.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

const KernelTable& emulated_amx_bf16_table();

}  // namespace turnstile::kernels
