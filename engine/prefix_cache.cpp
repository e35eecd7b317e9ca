#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace turnstile::engine {

PrefixCache::PrefixCache(std::size_t block_count)
    : entries_(block_count),
      slots_(std::bit_ceil(2 * block_count + 1), kNone),
      mask_(slots_.size() - 1) {}

std::size_t PrefixCache::probe(const PrefixKey& key) const {
  std::size_t slot = home(key);
  while (slots_[slot] != kNone && !(entries_[slots_[slot]].key == key)) slot = (slot + 1) & mask_;
  return slot;
}

bool PrefixCache::matches(const Entry& entry, const BlockContent& content) const {
  return entry.parent == content.parent.value_or(kNone) && entry.salt == content.salt &&
         std::equal(content.tokens.begin(), content.tokens.end(), entry.tokens.begin());
}

std::optional<kernels::BlockId> PrefixCache::find(const PrefixKey& key,
                                                  const BlockContent& content) const {
  const std::uint32_t block = slots_[probe(key)];
  if (block == kNone || !matches(entries_[block], content)) return std::nullopt;
  return block;
}

std::optional<kernels::BlockId> PrefixCache::insert(const PrefixKey& key,
                                                    const BlockContent& content,
                                                    kernels::BlockId block) {
  assert(block < entries_.size() && !entries_[block].used && "a block has one content");
  assert((!content.parent || entries_[*content.parent].used) && "the parent is cached");
  const std::size_t slot = probe(key);
  if (const std::uint32_t present = slots_[slot]; present != kNone) {
    if (matches(entries_[present], content)) return present;
    return std::nullopt;
  }
  Entry& entry = entries_[block];
  entry.key = key;
  entry.salt = content.salt;
  std::copy(content.tokens.begin(), content.tokens.end(), entry.tokens.begin());
  entry.parent = content.parent.value_or(kNone);
  entry.used = true;
  slots_[slot] = block;
  ++size_;
  return block;
}

void PrefixCache::erase(kernels::BlockId block) {
  assert(block < entries_.size() && entries_[block].used && "only a cached block is forgotten");
  std::size_t hole = probe(entries_[block].key);
  assert(slots_[hole] == block && "an entry is found under its key");
  entries_[block].used = false;
  --size_;
  // Entries behind the hole move up unless that would put them before their home slot, so that
  // probing needs no tombstones.
  for (std::size_t slot = (hole + 1) & mask_; slots_[slot] != kNone; slot = (slot + 1) & mask_) {
    const std::size_t distance_from_home = (slot - home(entries_[slots_[slot]].key)) & mask_;
    if (distance_from_home >= ((slot - hole) & mask_)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = kNone;
}

void PrefixCache::check_invariants() const {
  std::size_t used = 0;
  for (std::uint32_t block = 0; block < entries_.size(); ++block) {
    const Entry& entry = entries_[block];
    if (!entry.used) continue;
    ++used;
    assert(slots_[probe(entry.key)] == block && "an entry is found under its key");
    assert((entry.parent == kNone || entries_[entry.parent].used) && "the parent is cached");
  }
  assert(used == size_ && "the count of entries is right");
}

}  // namespace turnstile::engine
