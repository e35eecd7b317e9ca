#include "kernels/cpu/amx.h"
#include "kernels/cpu/amx_bf16.h"
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/tables.h"

namespace turnstile::kernels {
namespace {

constexpr KernelTable kTable{
    .level = Level::Amx,
    .numerics = Numerics::Int8,
    .name = "amx int8",
    .quantize = avx2::quantize,
    .matmul = amx::matmul,
    .rms_norm = avx2::rms_norm,
    .rope = avx2::rope,
    .swiglu = avx2::swiglu,
    .kv_write = avx2::kv_write,
    .attend = avx512::attend,
};

constexpr KernelTable kBf16{
    .level = Level::Amx,
    .numerics = Numerics::Bf16,
    .name = "amx bf16",
    .quantize = amx::quantize_bf16,
    .matmul = amx::matmul_bf16,
    .rms_norm = avx2::rms_norm,
    .rope = avx2::rope,
    .swiglu = avx2::swiglu,
    .kv_write = avx2::kv_write,
    .attend = avx512::attend,
};

}  // namespace

const KernelTable& amx_table() { return kTable; }
const KernelTable& amx_bf16_table() { return kBf16; }

}  // namespace turnstile::kernels
