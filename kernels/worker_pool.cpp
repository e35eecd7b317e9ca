#include "kernels/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace turnstile::kernels {
namespace {

// How long a thread looks before it sleeps, in pauses of 20 to 40 ns: between 20 and 300 us. The
// gap between two phases is short, but at the end of one a worker waits for the other's last item,
// and longer when the system has given that one's processor to whoever writes the answers. Where
// programs that compute share the processors, waits take milliseconds and looking is in vain: then
// the patience is halved each time.
constexpr int kLeastSpinPauses = 1000;
constexpr int kMostSpinPauses = 8000;
constexpr int kSpinGain = kMostSpinPauses / 32;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The patience of one thread: less after a wait that ended in sleep, slowly more after others.
class Patience {
 public:
  // Looks until done() or until the patience is at its end; whether it was done.
  template <typename Done>
  bool outlasts(Done done) {
    for (int i = 0; i < pauses_; ++i) {
      if (done()) {
        pauses_ = std::min(pauses_ + kSpinGain, kMostSpinPauses);
        return true;
      }
      pause_cpu();
    }
    pauses_ = std::max(pauses_ / 2, kLeastSpinPauses);
    return false;
  }

 private:
  int pauses_ = kMostSpinPauses;
};

// Where programs that compute share the processors, the system takes one away from a thread at any
// place, mostly inside an item, and all wait for that item until the thread has it back. So a
// worker offers its processor between two items before its time is over: then the others go on
// without it. That the clock decides when changes no result.
class Turn {
 public:
  void offer_when_over() {
    if (Clock::now() < end_) return;
    sched_yield();
    end_ = Clock::now() + kLength;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kLength{700};
  Clock::time_point end_;
};

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected,
          nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 0x7fffffff,
          nullptr, nullptr, 0);
}

}  // namespace

// A run is over when all its items are done, not when all workers have looked at it: a worker that
// wakes late finds nothing left and delays nobody. So the claim must tell runs apart: `ticket`
// holds the run's number above the count of unclaimed items, and a claim swaps both at once. The
// other fields of a run are plain: only a successful claimer reads them, and its item keeps the
// run open until it has.
struct WorkerPool::State {
  alignas(64) std::atomic<std::uint64_t> ticket{0};  // run << 32 | unclaimed items
  Call call = nullptr;
  void* context = nullptr;
  std::uint32_t item_count = 0;
  Patience caller_patience;
  alignas(64) std::atomic<std::uint32_t> done_count{0};
  std::atomic<std::uint32_t> caller_sleeps{0};
  alignas(64) std::atomic<std::uint32_t> run_number{0};  // what idle workers watch
  std::atomic<std::uint32_t> sleeper_count{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;

  // Also of the workers before the one that the system refused.
  ~State() {
    stop.store(true, std::memory_order_release);
    announce_run();
    for (std::thread& worker : workers) worker.join();
  }

  // The caller has no turn: without it nobody begins the next run.
  void work_until_drained(int worker, Turn* turn) {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(seen) != 0) {
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      const std::uint32_t count = item_count;
      const std::uint32_t item = count - static_cast<std::uint32_t>(seen);
      call(context, static_cast<int>(item), worker);
      if (done_count.fetch_add(1, std::memory_order_seq_cst) + 1 == count &&
          caller_sleeps.load(std::memory_order_seq_cst) != 0) {
        futex_wake_all(done_count);
      }
      if (turn != nullptr) turn->offer_when_over();
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  void wait_for_run_after(std::uint32_t seen, Patience& patience) {
    if (patience.outlasts(
            [&] { return run_number.load(std::memory_order_acquire) != seen; })) {
      return;
    }
    sleeper_count.fetch_add(1, std::memory_order_seq_cst);
    while (run_number.load(std::memory_order_seq_cst) == seen) futex_wait(run_number, seen);
    sleeper_count.fetch_sub(1, std::memory_order_seq_cst);
  }

  void announce_run() {
    run_number.fetch_add(1, std::memory_order_seq_cst);
    if (sleeper_count.load(std::memory_order_seq_cst) != 0) futex_wake_all(run_number);
  }

  void wait_until_done() {
    if (caller_patience.outlasts(
            [&] { return done_count.load(std::memory_order_acquire) == item_count; })) {
      return;
    }
    caller_sleeps.store(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t done = done_count.load(std::memory_order_seq_cst);
      if (done == item_count) break;
      futex_wait(done_count, done);
    }
    caller_sleeps.store(0, std::memory_order_relaxed);
  }

  void worker_loop(int worker) {
    std::uint32_t seen = 0;
    Patience patience;
    Turn turn;
    for (;;) {
      wait_for_run_after(seen, patience);
      if (stop.load(std::memory_order_acquire)) return;
      seen = run_number.load(std::memory_order_acquire);
      work_until_drained(worker, &turn);
    }
  }
};

WorkerPool::WorkerPool(int threads) : state_(std::make_unique<State>()) {
  assert(threads >= 1 && "the caller is a worker");
  state_->workers.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->worker_loop(worker); });
  }
}

WorkerPool::~WorkerPool() = default;

int WorkerPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void WorkerPool::run_items(int item_count, void* context, Call call) {
  assert(item_count >= 0 && "a run has no negative number of items");
  if (item_count == 0) return;
  State& state = *state_;
  if (state.workers.empty() || item_count == 1) {
    for (int item = 0; item < item_count; ++item) call(context, item, 0);
    return;
  }
  state.call = call;
  state.context = context;
  state.item_count = static_cast<std::uint32_t>(item_count);
  state.done_count.store(0, std::memory_order_relaxed);
  const std::uint64_t run = (state.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  state.ticket.store(run << 32 | state.item_count, std::memory_order_release);
  state.announce_run();
  state.work_until_drained(0, nullptr);
  state.wait_until_done();
}

}  // namespace turnstile::kernels
