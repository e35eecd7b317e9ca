// work_stretches.h: items of a phase, handed out so that a worker walks through neighbours.
//
//   items     0  1  2  3  4  5 | 6  7  8  9 10 11        two workers, a stretch each
//   worker 0  ->  ->  ->                                 its own stretch, from the front
//   worker 1                  <- |-> -> -> -> -> ->      .. then the other's, from the back
//
// Items of a product are numbered along its panels. A worker that takes neighbours finds the next
// panel where the products before it have asked for it (they fetch the panel that follows), and
// does not share the counter that says what is next. Who is done helps the others from the back,
// where it disturbs their walk least, so a worker that the system preempts still delays at most one
// item.
//
// Thread: one caller at a time; stretches are taken by the pool's workers. Cost: no allocation but
// by the constructor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/worker_pool.h"

namespace turnstile::engine {

class WorkStretches {
 public:
  explicit WorkStretches(int workers = 1) : stretches_(static_cast<std::size_t>(workers)) {}

  // Calls work(item, worker) once for each of [0, items) and returns when all are done.
  // REQUIRES: a pool of at most as many threads as there are workers.
  template <typename Work>
  void run(kernels::WorkerPool& pool, int items, Work&& work) {
    const int count = static_cast<int>(stretches_.size());
    for (int s = 0; s < count; ++s) {
      stretches_[static_cast<std::size_t>(s)].assign(items * s / count, items * (s + 1) / count);
    }
    pool.run(count, [&](int own, int worker) {
      while (const auto item = stretches_[static_cast<std::size_t>(own)].take_first()) {
        work(*item, worker);
      }
      for (int step = 1; step < count; ++step) {
        Stretch& other = stretches_[static_cast<std::size_t>((own + step) % count)];
        while (const auto item = other.take_last()) work(*item, worker);
      }
    });
  }

 private:
  // Items [first, last) that nobody has taken, both in one word.
  struct alignas(64) Stretch {
    std::atomic<std::uint64_t> bounds{0};

    static std::uint64_t pack(std::uint32_t first, std::uint32_t last) {
      return std::uint64_t{last} << 32 | first;
    }
    void assign(int first, int last) {
      bounds.store(pack(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)),
                   std::memory_order_relaxed);
    }
    std::optional<int> take_first() { return take(1, 0); }
    std::optional<int> take_last() { return take(0, 1); }

    // The pool orders what the items read and write; a claim only has to be unique.
    std::optional<int> take(std::uint32_t from_front, std::uint32_t from_back) {
      std::uint64_t seen = bounds.load(std::memory_order_relaxed);
      for (;;) {
        const auto first = static_cast<std::uint32_t>(seen);
        const auto last = static_cast<std::uint32_t>(seen >> 32);
        if (first == last) return std::nullopt;
        if (bounds.compare_exchange_weak(seen, pack(first + from_front, last - from_back),
                                         std::memory_order_relaxed)) {
          return static_cast<int>(from_front == 1 ? first : last - 1);
        }
      }
    }
  };

  std::vector<Stretch> stretches_;
};

}  // namespace turnstile::engine
