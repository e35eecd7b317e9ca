#include "kernels/cpu/scalar.h"
#include "kernels/cpu/tables.h"

namespace turnstile::kernels {
namespace {

constexpr KernelTable kInt8{
    .level = Level::Scalar,
    .numerics = Numerics::Int8,
    .name = "scalar int8",
    .quantize = scalar::quantize,
    .matmul = scalar::matmul_int8,
    .rms_norm = scalar::rms_norm,
    .rope = scalar::rope,
    .swiglu = scalar::swiglu,
    .kv_write = scalar::kv_write,
    .attend = scalar::attend,
};

constexpr KernelTable kFloat32{
    .level = Level::Scalar,
    .numerics = Numerics::Float32,
    .name = "scalar float32",
    .quantize = scalar::quantize,
    .matmul = scalar::matmul_float32,
    .rms_norm = scalar::rms_norm,
    .rope = scalar::rope,
    .swiglu = scalar::swiglu,
    .kv_write = scalar::kv_write,
    .attend = scalar::attend,
};

constexpr KernelTable kBf16{
    .level = Level::Scalar,
    .numerics = Numerics::Bf16,
    .name = "scalar bf16",
    .quantize = scalar::quantize_bf16,
    .matmul = scalar::matmul_bf16,
    .rms_norm = scalar::rms_norm,
    .rope = scalar::rope,
    .swiglu = scalar::swiglu,
    .kv_write = scalar::kv_write,
    .attend = scalar::attend,
};

}  // namespace

const KernelTable& scalar_int8_table() { return kInt8; }
const KernelTable& scalar_float32_table() { return kFloat32; }
const KernelTable& scalar_bf16_table() { return kBf16; }

}  // namespace turnstile::kernels
