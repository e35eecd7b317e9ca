#include "engine/loader/finite_values.h"

#include <cassert>
#include <cstdint>
#include <cstring>

namespace turnstile::engine {
namespace {

using kernels::FileType;

// The bits of an exponent; all of them set is an infinity or a NaN.
constexpr std::uint32_t kF32Exponent = 0x7F80'0000;
constexpr std::uint16_t kF16Exponent = 0x7C00;
constexpr std::uint16_t kBf16Exponent = 0x7F80;

// Every number of type Bits at `first`, `first + stride`, ...
template <typename Bits>
bool all_finite(std::span<const std::byte> bytes, std::size_t first, std::size_t stride,
                Bits exponent) {
  unsigned others = 0;  // without a branch, so that the compiler may take several at a time
  for (std::size_t at = first; at < bytes.size(); at += stride) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    others |= (bits & exponent) == exponent ? 1U : 0U;
  }
  return others == 0;
}

}  // namespace

bool are_finite(FileType type, std::span<const std::byte> blocks) {
  const std::size_t stride = kernels::file_format(type).bytes;
  assert(blocks.size() % stride == 0 && "whole blocks");
  const auto halves_at = [&](std::size_t first) {
    return all_finite(blocks, first, stride, kF16Exponent);
  };
  switch (type) {
    case FileType::F32: return all_finite(blocks, 0, stride, kF32Exponent);
    case FileType::F16: return halves_at(0);
    case FileType::BF16: return all_finite(blocks, 0, stride, kBf16Exponent);
    case FileType::Q8_0:
    case FileType::Q4_0:
    case FileType::Q5_0:
    case FileType::IQ4_NL: return halves_at(0);
    case FileType::Q4_1:
    case FileType::Q5_1:
    case FileType::Q4_K:
    case FileType::Q5_K: return halves_at(0) && halves_at(2);
    case FileType::Q2_K: return halves_at(80) && halves_at(82);
    case FileType::Q3_K: return halves_at(108);
    case FileType::Q6_K: return halves_at(208);
  }
  assert(false && "a format of the list");
  return false;
}

}  // namespace turnstile::engine
