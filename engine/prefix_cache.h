// prefix_cache.h: finds the block that already holds the K/V of given tokens after a given prefix.
//
// A map from PrefixKey to block. An entry is a full block whose K/V has been written; it names the
// block of its parent, so that entries form trees, one forest for each salt:
//
//   salt A: [16 ids] -- [16 ids] -- [16 ids]        salt B: [16 ids] -- ...
//                    \- [16 ids]
//
// A key only finds the place. A match also needs equal token ids, the same parent block and, at the
// root, the same salt; by induction the whole prefix is equal.
//
// Invariants (check_invariants() verifies both):
//   1. Every entry is found under its key.
//   2. The parent of an entry is an entry. KvCache keeps this: a holder of a block holds its
//      prefix, gives it up tail first, and idle blocks are reclaimed in the order of release, so a
//      parent is never reclaimed before its children.
//
// Thread:  engine thread only.
// Cost:    O(1) expected; at most half of the open-addressed table is full. No allocation after
//          construction. 104 bytes and two to four table slots a block.
// Tests:   tests/engine/prefix_cache_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/prefix_key.h"
#include "kernels/kv_block.h"

namespace turnstile::engine {

struct BlockContent {
  std::optional<kernels::BlockId> parent;  // none: the block begins the sequence
  CacheSalt salt;
  BlockTokens tokens;
};

class PrefixCache {
 public:
  explicit PrefixCache(std::size_t block_count);

  std::optional<kernels::BlockId> find(const PrefixKey& key, const BlockContent& content) const;

  // REQUIRES: `block` has no entry, its K/V is written, the parent has an entry. Returns the block
  // that stands for this content from now on: `block`, or one that was there before; nullopt when
  // another content sits under the same key (a collision; nothing is inserted).
  std::optional<kernels::BlockId> insert(const PrefixKey& key, const BlockContent& content,
                                         kernels::BlockId block);

  // Forgets the block's content; it must have an entry without children.
  void erase(kernels::BlockId block);

  std::size_t size() const { return size_; }
  void check_invariants() const;

 private:
  static constexpr std::uint32_t kNone = 0xffff'ffff;

  struct Entry {
    PrefixKey key;
    CacheSalt salt;
    std::array<TokenId, kernels::kKvBlockTokens> tokens{};
    std::uint32_t parent = kNone;
    bool used = false;
  };

  std::size_t home(const PrefixKey& key) const { return key.low & mask_; }
  std::size_t probe(const PrefixKey& key) const;  // the key's slot, or the empty one it would take
  bool matches(const Entry& entry, const BlockContent& content) const;

  std::vector<Entry> entries_;        // by block
  std::vector<std::uint32_t> slots_;  // blocks by key, linear probing; kNone: empty
  std::size_t mask_;
  std::size_t size_ = 0;
};

}  // namespace turnstile::engine
