// kv_cache.h: the block pool and the prefix cache behind one door; all that changes block tables.
//
//   admission   find_prefix() -> adopt() -> extend()      after a step   publish()
//   decoding    extend()                                  end, pause     release()
//   n > 1       fork()
//
// A block is published, that is findable by others, when the step that wrote its last position has
// run: never earlier, or a reader could meet positions that are not written yet; and not only when
// its request ends, so that requests which run at the same time share. Generated blocks are
// published too.
//
// Two sequences may compute the same block at the same time. The second one to publish gives its
// copy up and holds the first one's, which is the same bits (promise 1 of engine.h). So of a
// published block every holder also holds the published parent, and since tables are released tail
// first, an idle parent is always younger than its idle children: reclaiming the oldest idle block
// never tears a chain.
//
// Thread: engine thread only. Cost: O(blocks touched); no allocation once tables have their size.
// Errors: running out is asked before, with available(); extend() asserts.
// Tests:  tests/engine/kv_cache_test.cpp, engine_property_test.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/block_pool.h"
#include "engine/block_table.h"
#include "engine/prefix_cache.h"

namespace turnstile::engine {

class KvCache {
 public:
  KvCache(std::size_t block_count, bool enable_prefix_caching);

  std::size_t total() const { return pool_.total(); }
  std::size_t available() const { return pool_.available(); }

  struct Prefix {
    std::span<const kernels::BlockId> blocks;  // valid until the next call
    std::size_t idle = 0;  // of them without holder: adopting takes them from available()
  };
  // The cached leading blocks of `tokens`, at most so many that one token is left to compute, as
  // its logits are wanted. Brings table.keys up to date.
  Prefix find_prefix(BlockTable& table, std::span<const TokenId> tokens);

  // Fills the empty table with what find_prefix() has just found.
  void adopt(BlockTable& table, const Prefix& prefix);

  // Appends blocks until the table covers `tokens` positions. REQUIRES: enough available().
  void extend(BlockTable& table, std::size_t tokens);

  // Gives back the blocks behind those that cover `tokens` positions; none of them is published.
  void shrink(BlockTable& table, std::size_t tokens);

  // Makes every full block among the first `computed` tokens findable.
  void publish(BlockTable& table, std::span<const TokenId> tokens, std::size_t computed);

  // Fills the empty `to` with the first `computed` positions of `from`: full blocks are shared. A
  // partly filled last block needs a copy of its own: the caller copies K/V from first to second.
  // REQUIRES: one available() block if computed is not a multiple of the block size.
  std::optional<std::pair<kernels::BlockId, kernels::BlockId>> fork(const BlockTable& from,
                                                                    BlockTable& to,
                                                                    std::size_t computed);

  // Empties the table; published blocks stay findable until they are reclaimed.
  void release(BlockTable& table);

  bool prefix_caching() const { return prefix_caching_; }
  void check_invariants() const;
  std::uint32_t holders(kernels::BlockId block) const { return pool_.holders(block); }

 private:
  kernels::BlockId take();
  void extend_keys(BlockTable& table, std::span<const TokenId> tokens, std::size_t blocks) const;
  static BlockContent content(const BlockTable& table, std::span<const TokenId> tokens,
                              std::size_t index, std::span<const kernels::BlockId> chain);

  BlockPool pool_;
  PrefixCache prefixes_;
  bool prefix_caching_;
  std::vector<kernels::BlockId> found_;  // what find_prefix() returned last
};

}  // namespace turnstile::engine
