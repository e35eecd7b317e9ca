// avx2_float_matmul.h: products with F32, F16 and BF16 weights; part of the AVX2 level.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::avx2 {

// One fused multiply-add a column, from column 0 on, for any number of rows.
void float_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                  float* out, std::size_t out_stride, OutputMode mode);

}  // namespace turnstile::kernels::avx2
