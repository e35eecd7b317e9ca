// kv_block.h: how the keys and values of 16 positions lie in memory.
//
// The pool is one array [layer][block][kv_head] of equal head blocks:
//
//   head block, F16 and F32                Int8
//     K (head_dim, 16)                       K (head_dim/2, 16, 2)   bytes
//     V (16, head_dim)                       V (8, head_dim, 2)      bytes
//                                            key scale (16), value scale (16)   floats
//
// The 16 positions of one dimension are adjacent in K, so the 16 scores of a block are one
// accumulator, like a weight panel. Int8 has pairs, of dimensions in K and of positions in V: what
// one multiply-add of 16-bit integers takes. A position of a head has one scale for its key and one
// for its value: scale = max|x|/127, byte = round_to_nearest_even(x * (127/max|x|)); 0 when max|x|
// is below kSmallestScaled. K and V are clamped to what a half can hold in F16 and in Int8.
//
// The pool is zeroed when it is made: an attention kernel may read slots that were never written,
// and 0 * garbage must not be NaN.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::kernels {

using BlockId = std::uint32_t;  // an index into the pool, the same in every layer

inline constexpr int kKvBlockTokens = 16;

enum class KvType : std::uint8_t { F16, F32, Int8 };

// Sums of 16-bit times 8-bit products over a head stay below 2^31 up to here (kernel_table.h).
inline constexpr int kMaxInt8HeadDim = 512;

struct KvLayout {
  KvType type = KvType::F16;
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;  // any multiple of 8; Int8: at most kMaxInt8HeadDim
  std::size_t block_count = 0;

  std::size_t element_bytes() const {
    return type == KvType::Int8 ? 1 : type == KvType::F16 ? 2 : 4;
  }
  // K or V of a head block, without scales.
  std::size_t plane_bytes() const {
    return element_bytes() * kKvBlockTokens * static_cast<std::size_t>(head_dim);
  }
  std::size_t head_block_bytes() const {
    const std::size_t scales = type == KvType::Int8 ? 2 * sizeof(float) * kKvBlockTokens : 0;
    return 2 * plane_bytes() + scales;
  }
  // Bytes that one BlockId stands for, over all layers.
  std::size_t block_bytes() const {
    return head_block_bytes() * static_cast<std::size_t>(kv_heads) *
           static_cast<std::size_t>(layers);
  }
  std::size_t pool_bytes() const { return block_bytes() * block_count; }
  std::size_t offset(int layer, BlockId block, int kv_head) const {
    return ((static_cast<std::size_t>(layer) * block_count + block) *
                static_cast<std::size_t>(kv_heads) +
            static_cast<std::size_t>(kv_head)) *
           head_block_bytes();
  }
};

}  // namespace turnstile::kernels
