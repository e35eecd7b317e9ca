// spsc_ring.h: a bounded queue of values from one thread to one other thread.
//
//   producer: try_push() --> [ . . v v v . . . ] --> consumer: try_pop()
//                                tail_^   ^head_
//
// Each index is written by one side only. The release store of an index publishes what was done to
// the slots before it, so a consumer that sees the new head also sees the value, and a producer
// that sees the new tail may overwrite the slot.
//
// Thread:    one producer thread, one consumer thread; construction and destruction when neither is
//            at work.
// Errors:    full and empty are answers, not errors: nothing waits and nothing is dropped.
// Cost:      O(1), no allocation after construction.
// Why not moodycamel::ConcurrentQueue here: a step report must never be lost, so the ring is as
//            large as the number of reports that exist, and "full" has to be exact.
// Tests:     tests/gateway/spine_parts_test.cpp; under the thread sanitizer in
// engine_thread_test.cpp.
#pragma once

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace turnstile::gateway {

template <typename T>
class SpscRing {
 public:
  // Holds at least `capacity` values (rounded up to a power of two).
  explicit SpscRing(std::size_t capacity)
      : slots_(std::bit_ceil(capacity)), mask_(slots_.size() - 1) {
    assert(capacity > 0 && "a ring without slots cannot carry anything");
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  std::size_t capacity() const { return slots_.size(); }

  // Producer. False and `value` untouched when the ring is full.
  bool try_push(T&& value) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[head & mask_] = std::move(value);
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Consumer. False and `value` untouched when the ring is empty.
  bool try_pop(T& value) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;
    value = std::move(slots_[tail & mask_]);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer: whether try_pop() would fail now.
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kCacheLineBytes = 64;  // the two sides never share a line

  std::vector<T> slots_;
  std::size_t mask_;
  alignas(kCacheLineBytes) std::atomic<std::size_t> head_{0};  // next slot to fill
  alignas(kCacheLineBytes) std::atomic<std::size_t> tail_{0};  // next slot to empty
};

}  // namespace turnstile::gateway
