// spsc_chain.h: a queue of values from one thread to one other thread that grows when it must.
//
//   producer: push() --> last_ [ring of 2n] <-- next -- [ring of n] first_ --> consumer: try_pop()
//
// A full ring is followed by one twice as large, and the producer never returns to the one before;
// the consumer empties that and frees it. Soon one ring is left that holds what usually waits.
//
// Whoever sees `next` sees all that was pushed before it, so a ring that is empty afterwards stays
// so.
//
// Thread:    one producer thread, one consumer thread; construction and destruction when neither is
//            at work.
// Bounds:    none of its own: as much as the producer may send unread, rounded up, twice at most.
// Cost:      O(1); an allocation only where more waits than ever before.
// Tests:     tests/gateway/spine_parts_test.cpp, engine_thread_test.cpp (also under the thread
//            sanitizer)
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <memory>
#include <utility>

#include "gateway/spsc_ring.h"

namespace turnstile::gateway {

template <typename T>
class SpscChain {
 public:
  // Holds `capacity` values before it first grows.
  explicit SpscChain(std::size_t capacity) : first_(new Link(capacity)), last_(first_.get()) {}
  ~SpscChain() {
    while (Link* next = first_->next.load(std::memory_order_relaxed)) first_.reset(next);
  }
  SpscChain(const SpscChain&) = delete;
  SpscChain& operator=(const SpscChain&) = delete;

  // Producer.
  void push(T value) {
    if (last_->ring.try_push(std::move(value))) return;
    auto larger = std::make_unique<Link>(2 * last_->ring.capacity());
    const bool stored = larger->ring.try_push(std::move(value));
    assert(stored && "a new ring is empty");
    Link* const full = std::exchange(last_, larger.get());
    full->next.store(larger.release(), std::memory_order_release);
  }

  // Consumer. False and `value` untouched when the queue is empty.
  bool try_pop(T& value) {
    for (;;) {
      if (first_->ring.try_pop(value)) return true;
      Link* const next = first_->next.load(std::memory_order_acquire);
      if (next == nullptr) return false;
      // What was pushed between the two looks.
      if (first_->ring.try_pop(value)) return true;
      first_.reset(next);
    }
  }

  // Consumer: whether try_pop() would fail now.
  bool empty() const {
    return first_->ring.empty() && first_->next.load(std::memory_order_acquire) == nullptr;
  }

 private:
  struct Link {
    explicit Link(std::size_t capacity) : ring(capacity) {}
    SpscRing<T> ring;
    std::atomic<Link*> next{nullptr};  // owned by the consumer once it is set
  };

  std::unique_ptr<Link> first_;  // consumer
  Link* last_;                   // producer
};

}  // namespace turnstile::gateway
