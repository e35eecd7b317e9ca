#include "kernels/kernel_table.h"

#include <cassert>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/tables.h"

namespace turnstile::kernels {

std::size_t attention_scratch_floats(int head_dim) {
  assert(head_dim > 0 && "a shape");
  return attention_tile_floats(head_dim);
}

namespace {

const CpuFeatures& cpu() {
  static const CpuFeatures features = detect_cpu_features();
  return features;
}

}  // namespace

bool level_supported(Level level) {
  switch (level) {
    case Level::Scalar: return true;
    case Level::Avx2: return cpu().avx2;
    case Level::AvxVnni: return cpu().avx_vnni;
    case Level::Avx512Vnni: return cpu().avx512_vnni;
    case Level::Amx: return cpu().amx_int8;
  }
  return false;
}

bool has_numerics(Level level, Numerics numerics) {
  switch (numerics) {
    case Numerics::Int8: return true;
    case Numerics::Bf16: return level == Level::Scalar || (level == Level::Amx && cpu().amx_bf16);
    case Numerics::Float32: return level == Level::Scalar;
  }
  return false;
}

Level best_level() {
  Level best = Level::Scalar;
  for (const Level level : kLevels) {
    if (level_supported(level)) best = level;
  }
  return best;
}

std::optional<Level> parse_level(std::string_view name) {
  for (const Level level : kLevels) {
    if (name == to_string(level)) return level;
  }
  return std::nullopt;
}

std::string_view to_string(Level level) {
  switch (level) {
    case Level::Scalar: return "scalar";
    case Level::Avx2: return "avx2";
    case Level::AvxVnni: return "avx-vnni";
    case Level::Avx512Vnni: return "avx512-vnni";
    case Level::Amx: return "amx";
  }
  return "";
}

const KernelTable& kernel_table(Level level, Numerics numerics) {
  assert(level_supported(level) && "the level was chosen from those supported");
  assert(has_numerics(level, numerics) && "the level has these numerics");
  if (numerics == Numerics::Float32) return scalar_float32_table();
#if defined(__x86_64__)
  if (numerics == Numerics::Bf16 && level == Level::Amx) return amx_bf16_table();
#endif
  if (numerics == Numerics::Bf16) return scalar_bf16_table();
#if defined(__x86_64__)
  switch (level) {
    case Level::Scalar: break;
    case Level::Avx2: return avx2_table();
    case Level::AvxVnni: return avx_vnni_table();
    case Level::Avx512Vnni: return avx512_vnni_table();
    case Level::Amx: return amx_table();
  }
#endif
  return scalar_int8_table();
}

}  // namespace turnstile::kernels
