// tested_tables.h: the Int8 tables that a test runs over on this host.
//
// AVX-512 VNNI is always there: where the CPU lacks it, the same source is compiled once more on
// SIMDe's emulation of the instructions, which checks index logic and bits.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

std::vector<const KernelTable*> tested_tables();

// For SCOPED_TRACE.
std::string trace_of(const KernelTable& table);

}  // namespace turnstile::kernels
