// block_pool.h: the physical KV-cache blocks and who holds them.
//
// The KV cache is cut into equal blocks of kernels::kKvBlockTokens positions. A sequence refers to
// blocks through its BlockTable; several sequences may share a block that holds a common prefix.
// This class only counts holders. It neither reads nor writes KV data and does not know what a
// block contains.
//
//        free list            held                      idle: cached, no holder
//      +----------+  take   +--------------+  release  +-------------------+
//      | block 7  | ------> | holders >= 1 | --------> | kept until needed |
//      +----------+         +--------------+  (cached) +-------------------+
//            ^                 |        ^      share             |     |
//            |     release     |        +------------------------+     |
//            +--(not cached)---+        +---- take (oldest first) -----+
//
// Invariants (check_invariants() verifies all four):
//   1. free + held + idle == total.
//   2. A block is in the free list iff it has no holder and is not cached.
//   3. A block is in the idle list iff it has no holder and is cached.
//   4. The idle list is in order of release, oldest first.
//
// Thread:    engine thread only; no locking.
// Lifetime:  BlockIds are indices and stay valid as long as the pool.
// Errors:    running out is expected: try_take() returns nullopt and the scheduler decides whom to
//            pause. Releasing a block that has no holder is our bug and asserts.
// Cost:      every operation is O(1) except construction. No allocation after construction.
// Why not a reference-counting pointer: the scheduler must know *before* it starts a step that the
// step cannot run out. Counts can be summed; handles cannot.
// Tests:     tests/engine/block_pool_test.cpp (all orders of four operations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kv_block.h"

namespace turnstile::engine {

class BlockPool {
 public:
  // At most kMaxBlocks.
  explicit BlockPool(std::size_t block_count);

  static constexpr std::size_t kMaxBlocks = 0x7fff'fffe;

  struct Taken {
    kernels::BlockId block = 0;
    bool was_cached = false;  // its content was reclaimed: whoever finds it by content must forget
  };

  // A block with one holder: from the free list, else the idle block released longest ago.
  std::optional<Taken> try_take();

  // One more holder of a block that is held or idle.
  void share(kernels::BlockId block);

  // One holder fewer.
  void release(kernels::BlockId block);

  // The held block's content may be found by others: without holders it becomes idle, not free.
  void mark_cached(kernels::BlockId block);

  std::size_t total() const { return holders_.size(); }
  std::size_t free() const { return free_count_; }
  std::size_t idle() const { return idle_count_; }
  std::size_t held() const { return total() - free_count_ - idle_count_; }
  std::size_t available() const { return free_count_ + idle_count_; }  // for try_take()
  std::uint32_t holders(kernels::BlockId block) const { return holders_[block]; }
  bool is_cached(kernels::BlockId block) const { return cached_[block] != 0; }

  void check_invariants() const;  // O(total)

 private:
  void append_idle(kernels::BlockId block);
  void remove_idle(kernels::BlockId block);

  std::vector<std::uint32_t> holders_;
  std::vector<std::uint8_t> cached_;
  // Links of the free list (next_ only) and of the idle list, a ring whose sentinel is the entry
  // behind the last block.
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> previous_;
  std::uint32_t first_free_;
  std::size_t free_count_;
  std::size_t idle_count_ = 0;
};

}  // namespace turnstile::engine
