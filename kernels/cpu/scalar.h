// scalar.h: the plain loops that define correctness. Contracts: kernel_table.h.
#pragma once

#include "kernels/kernel_table.h"

namespace turnstile::kernels::scalar {

void quantize(const ActivationRows& x, int row_begin, int row_end);

// Integer products for quantised weights, float products for the others.
void matmul_int8(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode);

// Dequantised weights times float activations, whatever the type.
void matmul_float32(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                    float* out, std::size_t out_stride, OutputMode mode);

// Rounds to bf16, and products of what is rounded: the definition of Numerics::Bf16.
void quantize_bf16(const ActivationRows& x, int row_begin, int row_end);
void matmul_bf16(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode);

void rms_norm(const float* x, const float* weight, int n, float eps, float* out);
void rope(float* row, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin);
void swiglu(const float* gate, const float* up, int n, float* out);
void kv_write(const KvLayout& layout, std::byte* layer_kv, BlockId block, int slot, const float* k,
              const float* v);
void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch);

}  // namespace turnstile::kernels::scalar
