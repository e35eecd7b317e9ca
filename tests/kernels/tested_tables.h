// tested_tables.h: the Int8 tables that a test runs over on this host.
//
// Beside the levels that the CPU has, AVX-512 VNNI is always there on SIMDe's emulation of the
// instructions, which checks index logic and bits (not in sanitizer builds).
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

std::vector<const KernelTable*> tested_tables();

// For SCOPED_TRACE.
std::string trace_of(const KernelTable& table);

}  // namespace turnstile::kernels
