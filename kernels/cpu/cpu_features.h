// cpu_features.h: what this CPU has and its operating system saves, from CPUID and XGETBV.
// Source: Intel SDM volume 2 (CPUID), volume 1 chapter 13 (XSAVE).
#pragma once

namespace turnstile::kernels {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with YMM state enabled
  bool avx512_vnni = false;  // F, BW, VL, DQ and VNNI, with opmask and ZMM state enabled
};

CpuFeatures detect_cpu_features();

}  // namespace turnstile::kernels
