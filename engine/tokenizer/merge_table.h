// merge_table.h: which two neighbouring tokens become which one, and how early.
//
// A hash table with open addressing, at most half full, keyed by (left id, right id). The keys
// come from the model file and are fixed, so a client cannot make lookups slow.
//
// Thread: immutable after the last insert; const use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/token_id.h"

namespace turnstile::engine {

class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;  // lower is merged earlier
    TokenId result;
  };

  MergeTable() : MergeTable(0) {}
  explicit MergeTable(std::size_t merge_count);

  // False if the pair has a rank already; the first one stays. At most merge_count inserts.
  bool insert(TokenId left, TokenId right, Merge merge);

  // To be called once, after the last insert.
  void find_order(std::size_t vocabulary_size);

  // Whether every token is made by merges of lower rank than any merge that uses it, as in lists
  // that training wrote. False for lists that were derived from a vocabulary.
  bool is_ordered() const { return is_ordered_; }

  // nullptr if the pair does not merge.
  const Merge* find(TokenId left, TokenId right) const {
    const std::uint64_t key = pack(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return &slot.merge;
      if (slot.key == kEmpty) return nullptr;
    }
  }

 private:
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no id is 2^32-1
  static std::uint64_t pack(TokenId left, TokenId right) {
    return std::uint64_t{left} << 32 | right;
  }
  std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E37'79B9'7F4A'7C15u >> shift_);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 63;
  bool is_ordered_ = false;
};

}  // namespace turnstile::engine
