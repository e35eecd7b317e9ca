// amx.h: the AMX level (tiles and their int8 products, beside AVX-512 VNNI). Contracts:
// kernel_table.h. A CPU with AMX has AVX-512, and the table takes all but the products from there;
// so do products of a shape that tiles do not help.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::amx {

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode);

}  // namespace turnstile::kernels::amx
