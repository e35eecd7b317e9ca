#include "engine/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace turnstile::engine {

MergeTable::MergeTable(std::size_t merge_count) {
  const std::size_t size = std::bit_ceil(2 * merge_count + 2);
  slots_.assign(size, Slot{kEmpty, {0, 0}});
  mask_ = size - 1;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
}

bool MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = pack(left, right);
  assert(key != kEmpty && "ids are below the vocabulary size");
  for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
    if (slots_[i].key == key) return false;
    if (slots_[i].key == kEmpty) {
      slots_[i] = {key, merge};
      return true;
    }
  }
}

void MergeTable::find_order(std::size_t vocabulary_size) {
  // One more than the highest rank that makes the token; 0 for tokens that no merge makes.
  std::vector<std::uint32_t> made_before(vocabulary_size, 0);
  for (const Slot& slot : slots_) {
    if (slot.key == kEmpty) continue;
    std::uint32_t& made = made_before[slot.merge.result];
    made = std::max(made, slot.merge.rank + 1);
  }
  is_ordered_ = std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.key == kEmpty || (made_before[slot.key >> 32] <= slot.merge.rank &&
                                  made_before[slot.key & 0xFFFF'FFFFu] <= slot.merge.rank);
  });
}

}  // namespace turnstile::engine
