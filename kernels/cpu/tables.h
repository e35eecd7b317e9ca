// tables.h: the tables that the levels provide; kernel_table.cpp chooses among them.
//
// Every level has its own translation units, compiled with its own flags, and shares no inline
// function with the others: the linker keeps one copy of an inline function, and if that copy came
// from the AVX-512 file an older CPU would die on it.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

const KernelTable& scalar_int8_table();
const KernelTable& scalar_float32_table();
const KernelTable& scalar_bf16_table();
#if defined(__x86_64__)
const KernelTable& avx2_table();
const KernelTable& avx_vnni_table();
const KernelTable& avx512_vnni_table();
const KernelTable& amx_table();
const KernelTable& amx_bf16_table();
#endif

}  // namespace turnstile::kernels
