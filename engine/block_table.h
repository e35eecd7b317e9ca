// block_table.h: which block holds which positions of one sequence.
//
//   position   0 .. 15   16 .. 31   32 .. 47
//   blocks  [    7     ,    3     ,    12    ]     published = 2: blocks 7 and 3 are what the
//   keys    [   k0     ,   k1     ]                prefix cache knows under k0 and k1
//
// A plain value that KvCache changes. Every block in `blocks` counts this table as one holder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/prefix_key.h"
#include "engine/request.h"
#include "kernels/kv_block.h"

namespace turnstile::engine {

constexpr std::size_t blocks_for(std::size_t tokens) {
  return (tokens + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

struct BlockTable {
  std::vector<kernels::BlockId> blocks;
  std::vector<PrefixKey> keys;  // of the full blocks of the known tokens, as far as needed yet
  CacheSalt salt;
  std::uint32_t published = 0;  // leading blocks that are entries of the prefix cache
  bool collided = false;        // a block's key was taken: it and what follows stay private
};

}  // namespace turnstile::engine
