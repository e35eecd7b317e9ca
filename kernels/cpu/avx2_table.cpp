#include "kernels/cpu/avx2.h"
#include "kernels/cpu/tables.h"

namespace turnstile::kernels {
namespace {

constexpr KernelTable kTable{
    .level = Level::Avx2,
    .numerics = Numerics::Int8,
    .name = "avx2 int8",
    .quantize = avx2::quantize,
    .matmul = avx2::matmul,
    .rms_norm = avx2::rms_norm,
    .rope = avx2::rope,
    .swiglu = avx2::swiglu,
    .kv_write = avx2::kv_write,
    .attend = avx2::attend,
};

}  // namespace

const KernelTable& avx2_table() { return kTable; }

}  // namespace turnstile::kernels
