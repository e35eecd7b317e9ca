#include "kernels/cpu/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace turnstile::kernels {
#if defined(__x86_64__)
namespace {

bool has(std::uint32_t bits, int bit) { return (bits >> bit & 1U) != 0; }

// Which register states the operating system saves; a CPU may have AVX-512 under a system that
// would lose the registers at the next context switch.
std::uint64_t enabled_states() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

// Linux gives the large tile state only to processes that ask (ARCH_REQ_XCOMP_PERM, XTILEDATA).
bool tiles_permitted() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !has(c, 27)) return features;  // OSXSAVE
  const bool vector_float = has(c, 28) && has(c, 12) && has(c, 29);         // AVX, FMA, F16C
  const std::uint64_t states = enabled_states();
  constexpr std::uint64_t kYmm = 0x6;
  constexpr std::uint64_t kZmm = 0xe6;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  features.avx2 = vector_float && has(b, 5) && (states & kYmm) == kYmm;
  features.avx512_vnni = features.avx2 && (states & kZmm) == kZmm && has(b, 16) && has(b, 17) &&
                         has(b, 30) && has(b, 31) && has(c, 11);
  constexpr std::uint64_t kTiles = 0x60000;
  features.amx_int8 = features.avx512_vnni && (states & kTiles) == kTiles && has(d, 24) &&
                      has(d, 25) && tiles_permitted();
  features.amx_bf16 = features.amx_int8 && has(d, 22);
  const std::uint32_t subleaves = a;
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
    features.avx_vnni = features.avx2 && has(a, 4);
  }
  return features;
}
#else
CpuFeatures detect_cpu_features() { return {}; }
#endif

}  // namespace turnstile::kernels
