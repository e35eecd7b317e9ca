// kv_block.h: how the keys and values of 16 positions lie in memory.
//
// The pool is one array [layer][block][kv_head] of equal head blocks:
//
//   head block = K: (head_dim, 16)   the 16 positions of one dimension are adjacent, so the 16
//                                    scores of a block are one accumulator, like a weight panel
//                V: (16, head_dim)   one position's values are adjacent
//
// Element type F16 (default) or F32 (the reference numerics). The pool is zeroed when it is made:
// an attention kernel may read slots that were never written, and 0 * garbage must not be NaN.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::kernels {

using BlockId = std::uint32_t;  // an index into the pool, the same in every layer

inline constexpr int kKvBlockTokens = 16;

enum class KvType : std::uint8_t { F16, F32 };

struct KvLayout {
  KvType type = KvType::F16;
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;  // any multiple of 8
  std::size_t block_count = 0;

  std::size_t element_bytes() const { return type == KvType::F16 ? 2 : 4; }
  std::size_t head_block_bytes() const {
    return 2 * element_bytes() * kKvBlockTokens * static_cast<std::size_t>(head_dim);
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
