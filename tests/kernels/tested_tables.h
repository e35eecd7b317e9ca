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

// The level that this CPU must have: tests/emulated_cpu says it in TURNSTILE_TEST_CPU_LEVEL. Null
// elsewhere. On such a CPU the tables are its own alone: emulation inside emulation takes an hour.
const char* level_of_emulated_cpu();

// For SCOPED_TRACE.
std::string trace_of(const KernelTable& table);

}  // namespace turnstile::kernels
