// avx512.h: the AVX-512 VNNI level (F, BW, VL, DQ, VNNI). Contracts: kernel_table.h. What is not
// here (norms, rotary positions, gate, quantisation, KV writes) is too small to matter: the table
// takes it from the AVX2 level, which such a CPU has too.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::avx512 {

void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode);
void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch);

}  // namespace turnstile::kernels::avx512
