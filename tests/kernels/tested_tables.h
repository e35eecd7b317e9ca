// tested_tables.h: the Int8 tables that a test runs over on this host.
//
// Beside the levels that the CPU has, the others are there on emulated instructions, which checks
// index logic and bits: AVX-VNNI where there is AVX2; AVX-512 VNNI on SIMDe and AMX on that and
// emulated_tiles.h everywhere, but not in sanitizer builds.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

std::vector<const KernelTable*> tested_tables();

// For SCOPED_TRACE.
std::string trace_of(const KernelTable& table);

}  // namespace turnstile::kernels
