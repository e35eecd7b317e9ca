#include "kernels/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "tests/support/few_threads.h"

namespace turnstile::kernels {
namespace {

// Plain counters: a data race between two workers, or between a run and its caller, is for
// ThreadSanitizer to find.
TEST(WorkerPool, DoesEachItemOnceInEveryRun) {
  for (int threads = 1; threads <= 4; ++threads) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> done(64);
    std::vector<int> expected(64);
    for (int run = 0; run < 3000; ++run) {
      const int items = run % 65;
      pool.run(items, [&](int item, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        done[static_cast<std::size_t>(item)] += 1;
      });
      for (int i = 0; i < items; ++i) expected[static_cast<std::size_t>(i)] += 1;
      ASSERT_EQ(done, expected) << "threads " << threads << " run " << run;
    }
  }
}

TEST(WorkerPool, GivesEachWorkerItsOwnIndex) {
  WorkerPool pool(4);
  struct alignas(64) Slot {
    long items = 0;
  };
  std::vector<Slot> slots(4);
  for (int run = 0; run < 2000; ++run) {
    pool.run(16, [&](int, int worker) { ++slots[static_cast<std::size_t>(worker)].items; });
  }
  long total = 0;
  for (const Slot& slot : slots) total += slot.items;
  EXPECT_EQ(total, 16L * 2000);
}

// The items of one run wait for each other, so the run ends only if two threads work on it; the
// other threads may have slept since the last run.
TEST(WorkerPool, WakesASleepingWorker) {
  WorkerPool pool(2);
  for (int run = 0; run < 50; ++run) {
    std::atomic<int> arrived{0};
    pool.run(2, [&](int, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) {
      }
    });
    EXPECT_EQ(arrived.load(), 2);
    std::atomic<long> idle{0};
    while (idle.load() < 200000) idle.fetch_add(1);  // longer than a worker spins
  }
}

TEST(WorkerPool, OneItemAndNoItemStayOnTheCaller) {
  WorkerPool pool(3);
  int calls = 0;
  pool.run(0, [&](int, int) { ++calls; });
  EXPECT_EQ(calls, 0);
  pool.run(1, [&](int item, int worker) {
    EXPECT_EQ(item, 0);
    EXPECT_EQ(worker, 0);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(WorkerPool, StartsAndStopsWithoutARun) {
  for (int i = 0; i < 50; ++i) WorkerPool pool(1 + i % 4);
}

// The workers that had been started ended the process without a sentence.
TEST(WorkerPool, AThreadThatTheSystemRefusesIsAnException) {
  if (!tests::kThreadsCanBeLimited) GTEST_SKIP() << tests::kNoThreadLimit;
  EXPECT_EXIT(
      {
        tests::allow_threads(2);
        try {
          const WorkerPool pool(8);
        } catch (const std::system_error&) {
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace turnstile::kernels
