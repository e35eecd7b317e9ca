// avxvnni.h: the AVX-VNNI level (AVX2 and the 256-bit sum of four byte products). Contracts:
// kernel_table.h. All but the products with quantised weights is the AVX2 level's.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::avxvnni {

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode);

}  // namespace turnstile::kernels::avxvnni
