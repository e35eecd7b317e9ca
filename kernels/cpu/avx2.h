// avx2.h: the AVX2 level (AVX2, FMA, F16C; no VNNI). Contracts: kernel_table.h.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::avx2 {

void quantize(const ActivationRows& x, int row_begin, int row_end);
void matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
            float* out, std::size_t out_stride, OutputMode mode);
void rms_norm(const float* x, const float* weight, int n, float eps, float* out);
void rope(float* row, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin);
void swiglu(const float* gate, const float* up, int n, float* out);
void kv_write(const KvLayout& layout, std::byte* layer_kv, BlockId block, int slot, const float* k,
              const float* v);
void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch);

}  // namespace turnstile::kernels::avx2
