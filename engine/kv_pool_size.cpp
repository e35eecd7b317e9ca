#include "engine/kv_pool_size.h"

#include <algorithm>
#include <cassert>

#include "engine/block_table.h"
#include "engine/memory_text.h"

namespace turnstile::engine {
namespace {

std::size_t unwritten_bytes(const KvPoolFacts& facts) {
  if (!facts.left_bytes) return kPoolBytesUnknown;
  const std::size_t left = *facts.left_bytes;
  return left > kMemoryReserveBytes ? (left - kMemoryReserveBytes) / kPoolShareOfLeft : 0;
}

}  // namespace

tl::expected<std::size_t, std::string> kv_pool_blocks(const KvPoolFacts& facts) {
  assert(facts.block_bytes > 0 && facts.max_num_seqs > 0 && facts.max_tokens > 0 && "a model");
  const std::size_t fewest_tokens = std::min(facts.max_tokens, kFewestTokens);
  const std::size_t fewest = blocks_for(fewest_tokens);
  const std::string one_sequence = "the KV cache of one sequence of " +
                                   std::to_string(fewest_tokens) + " tokens takes " +
                                   memory_text(fewest * facts.block_bytes);
  const std::string left =
      facts.left_bytes ? memory_text(*facts.left_bytes) + " of memory are left beside the weights"
                       : std::string("nobody can say how much memory is left");
  if (facts.written_bytes) {
    const std::size_t written = *facts.written_bytes;
    if (facts.left_bytes && written > *facts.left_bytes) {
      return tl::unexpected("kv_cache_memory_bytes is " + memory_text(written) + ", but " + left +
                            ": write less, or leave the setting out.");
    }
    if (written / facts.block_bytes < fewest) {
      return tl::unexpected("kv_cache_memory_bytes is " + memory_text(written) + ", but " +
                            one_sequence + ": write more, or leave the setting out.");
    }
    return written / facts.block_bytes;
  }
  const std::size_t blocks = unwritten_bytes(facts) / facts.block_bytes;
  if (blocks < fewest) {
    return tl::unexpected(one_sequence + ", but " + left + ", of which " +
                          memory_text(kMemoryReserveBytes) +
                          " are kept free: serve a smaller model, or write "
                          "kv_cache_memory_bytes.");
  }
  return std::min(blocks, facts.max_num_seqs * blocks_for(facts.max_tokens));
}

}  // namespace turnstile::engine
