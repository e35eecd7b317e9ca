#include "tests/kernels/tested_tables.h"

#include "tests/kernels/emulated_avx512.h"

namespace turnstile::kernels {

std::vector<const KernelTable*> tested_tables() {
  std::vector<const KernelTable*> tables;
  for (const Level level : {Level::Scalar, Level::Avx2, Level::Avx512Vnni}) {
    if (level_supported(level)) tables.push_back(&kernel_table(level, Numerics::Int8));
  }
  tables.push_back(&emulated_avx512_table());
  return tables;
}

std::string trace_of(const KernelTable& table) {
  return "table " + std::string(table.name);
}

}  // namespace turnstile::kernels
