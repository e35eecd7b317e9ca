#include "engine/block_pool.h"

#include <cassert>

namespace turnstile::engine {

BlockPool::BlockPool(std::size_t block_count)
    : holders_(block_count, 0),
      cached_(block_count, 0),
      next_(block_count + 1),
      previous_(block_count + 1),
      first_free_(0),
      free_count_(block_count) {
  assert(block_count <= kMaxBlocks && "a block id has 31 bits");
  const auto sentinel = static_cast<std::uint32_t>(block_count);
  for (std::uint32_t block = 0; block < sentinel; ++block) next_[block] = block + 1;
  next_[sentinel] = sentinel;
  previous_[sentinel] = sentinel;
}

std::optional<BlockPool::Taken> BlockPool::try_take() {
  const auto sentinel = static_cast<std::uint32_t>(total());
  Taken taken;
  if (free_count_ > 0) {
    taken.block = first_free_;
    first_free_ = next_[first_free_];
    --free_count_;
  } else if (idle_count_ > 0) {
    taken.block = next_[sentinel];
    taken.was_cached = true;
    remove_idle(taken.block);
    cached_[taken.block] = 0;
  } else {
    return std::nullopt;
  }
  holders_[taken.block] = 1;
  return taken;
}

void BlockPool::share(kernels::BlockId block) {
  assert(block < total() && "a block id comes from this pool");
  if (holders_[block] == 0) {
    assert(cached_[block] != 0 && "a free block has no content to share");
    remove_idle(block);
  }
  ++holders_[block];
}

void BlockPool::release(kernels::BlockId block) {
  assert(block < total() && "a block id comes from this pool");
  assert(holders_[block] > 0 && "a block is released once by each holder");
  if (--holders_[block] > 0) return;
  if (cached_[block] != 0) {
    append_idle(block);
  } else {
    next_[block] = first_free_;
    first_free_ = block;
    ++free_count_;
  }
}

void BlockPool::mark_cached(kernels::BlockId block) {
  assert(block < total() && holders_[block] > 0 && "only who holds a block knows its content");
  cached_[block] = 1;
}

void BlockPool::append_idle(kernels::BlockId block) {
  const auto sentinel = static_cast<std::uint32_t>(total());
  const std::uint32_t last = previous_[sentinel];
  next_[last] = block;
  previous_[block] = last;
  next_[block] = sentinel;
  previous_[sentinel] = block;
  ++idle_count_;
}

void BlockPool::remove_idle(kernels::BlockId block) {
  next_[previous_[block]] = next_[block];
  previous_[next_[block]] = previous_[block];
  --idle_count_;
}

void BlockPool::check_invariants() const {
  enum Place : std::uint8_t { Nowhere, InFree, InIdle };
  const auto sentinel = static_cast<std::uint32_t>(total());
  std::vector<std::uint8_t> place(total(), Nowhere);
  std::uint32_t block = first_free_;
  for (std::size_t i = 0; i < free_count_; ++i, block = next_[block]) {
    assert(block < sentinel && place[block] == Nowhere && "a block is in the free list once");
    place[block] = InFree;
  }
  block = next_[sentinel];
  for (std::size_t i = 0; i < idle_count_; ++i, block = next_[block]) {
    assert(block < sentinel && place[block] == Nowhere && "a block is in one list");
    assert(next_[previous_[block]] == block && "idle links agree");
    place[block] = InIdle;
  }
  assert(block == sentinel && "the idle list has as many blocks as its count says");
  std::size_t held_count = 0;
  for (std::uint32_t b = 0; b < sentinel; ++b) {
    const bool is_held = holders_[b] > 0;
    held_count += is_held ? 1 : 0;
    assert((place[b] == InFree) == (!is_held && cached_[b] == 0) && "free: no holder, not cached");
    assert((place[b] == InIdle) == (!is_held && cached_[b] != 0) && "idle: no holder, cached");
  }
  assert(free_count_ + idle_count_ + held_count == total() && "free + held + idle == total");
}

}  // namespace turnstile::engine
