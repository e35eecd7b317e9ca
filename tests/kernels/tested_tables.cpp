#include "tests/kernels/tested_tables.h"

#include <cstdlib>

#if defined(TURNSTILE_TEST_EMULATED_AVX512)
#include "tests/kernels/emulated_amx.h"
#include "tests/kernels/emulated_avx512.h"
#endif
#if defined(__x86_64__)
#include "tests/kernels/emulated_avxvnni.h"
#endif

namespace turnstile::kernels {

const char* level_of_emulated_cpu() { return std::getenv("TURNSTILE_TEST_CPU_LEVEL"); }

std::vector<const KernelTable*> tested_tables() {
  std::vector<const KernelTable*> tables;
  for (const Level level : kLevels) {
    if (level_supported(level)) tables.push_back(&kernel_table(level, Numerics::Int8));
  }
  if (level_of_emulated_cpu() != nullptr) return tables;
#if defined(TURNSTILE_TEST_EMULATED_AVX512)
  tables.push_back(&emulated_avx512_table());
  tables.push_back(&emulated_amx_table());
#endif
#if defined(__x86_64__)
  if (level_supported(Level::Avx2)) tables.push_back(&emulated_avxvnni_table());
#endif
  return tables;
}

std::string trace_of(const KernelTable& table) {
  return "table " + std::string(table.name);
}

}  // namespace turnstile::kernels
