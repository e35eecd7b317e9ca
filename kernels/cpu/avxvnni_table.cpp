#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avxvnni.h"
#include "kernels/cpu/tables.h"

namespace turnstile::kernels {
namespace {

constexpr KernelTable kTable{
    .level = Level::AvxVnni,
    .numerics = Numerics::Int8,
    .name = "avx-vnni int8",
    .quantize = avx2::quantize,
    .matmul = avxvnni::matmul,
    .rms_norm = avx2::rms_norm,
    .rope = avx2::rope,
    .swiglu = avx2::swiglu,
    .kv_write = avx2::kv_write,
    .attend = avx2::attend,
};

}  // namespace

const KernelTable& avx_vnni_table() { return kTable; }

}  // namespace turnstile::kernels
