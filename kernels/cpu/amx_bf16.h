// amx_bf16.h: products of many rows on AMX tiles of bf16 (Numerics::Bf16). Contracts:
// kernel_table.h. A CPU with these tiles has those of amx.h and AVX-512 VNNI.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::amx {

void quantize_bf16(const ActivationRows& x, int row_begin, int row_end);
void matmul_bf16(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode);

}  // namespace turnstile::kernels::amx
