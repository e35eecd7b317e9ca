// worker_pool.h: the threads that share one step's work.
//
// run() cuts [0, item_count) into items that the workers take one by one (an atomic counter), so a
// worker that the system preempts delays at most one item. The calling thread is worker 0. Between
// runs the others spin and then sleep on a futex, so an idle engine costs nothing. They spin for up
// to 300 us where that has sufficed lately, and for 20 us where others keep the processors busy.
// Every 700 us they offer their processor between two items (sched_yield), since a program that
// takes it within an item makes all wait.
//
// Which worker computes an item never changes its bits (kernel_table.h).
//
// Thread:  one caller at a time (the engine thread). Workers are joined by the destructor.
// Cost:    run() allocates nothing.
#pragma once

#include <memory>
#include <type_traits>

namespace turnstile::kernels {

class WorkerPool {
 public:
  // `threads` >= 1 counts the caller. Throws std::system_error when the system refuses one.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const;

  // Calls work(item, worker) once for each item and returns when all are done. work must not
  // throw and must not call run().
  template <typename Work>
  void run(int item_count, Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_items(item_count, const_cast<void*>(static_cast<const void*>(&work)),
              [](void* context, int item, int worker) {
                (*static_cast<Plain*>(context))(item, worker);
              });
  }

 private:
  using Call = void (*)(void* context, int item, int worker);
  void run_items(int item_count, void* context, Call call);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::kernels
