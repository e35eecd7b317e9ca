// cpu_features.h: what this CPU has and its operating system saves, from CPUID and XGETBV.
// Source: Intel SDM volume 2 (CPUID), volume 1 chapter 13 (XSAVE).
#pragma once

namespace turnstile::kernels {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with YMM state enabled
  bool avx_vnni = false;     // that and the 256-bit sum of four byte products
  bool avx512_vnni = false;  // F, BW, VL, DQ and VNNI, with opmask and ZMM state enabled
  bool amx_int8 = false;     // that and tiles with their int8 products, whose state is permitted
  bool amx_bf16 = false;     // that and products of tiles of bf16
};

// Where the CPU has AMX this asks the system for the permission to use tiles, which holds for the
// whole process from then on.
CpuFeatures detect_cpu_features();

}  // namespace turnstile::kernels
