// How the model cuts its phases into items and hands them out (engine/model); here because the
// worker pool is what they stand on, and this program also runs under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "engine/model/work_split.h"
#include "engine/model/work_stretches.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {
namespace {

TEST(WorkStretches, DoesEachItemOnceForAnyNumberOfItems) {
  for (int threads = 1; threads <= 4; ++threads) {
    kernels::WorkerPool pool(threads);
    WorkStretches stretches(threads);
    std::vector<int> done(41);
    std::vector<int> expected(41);
    for (int run = 0; run < 1000; ++run) {
      const int items = run % 42;
      stretches.run(pool, items, [&](int item, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        done[static_cast<std::size_t>(item)] += 1;
      });
      for (int i = 0; i < items; ++i) expected[static_cast<std::size_t>(i)] += 1;
      ASSERT_EQ(done, expected) << "threads " << threads << " run " << run;
    }
  }
}

// Item 0 does not end before all others have: the worker that has it can do no more, so the other
// one does the rest of that stretch, from its back.
TEST(WorkStretches, AWorkerThatIsHeldUpIsHelped) {
  kernels::WorkerPool pool(2);
  WorkStretches stretches(2);
  constexpr int kItems = 10;
  std::atomic<int> others{0};
  std::vector<int> order;
  stretches.run(pool, kItems, [&](int item, int) {
    if (item == 0) {
      while (others.load() < kItems - 1) {
      }
      return;
    }
    order.push_back(item);
    others.fetch_add(1);
  });
  EXPECT_EQ(order, (std::vector<int>{5, 6, 7, 8, 9, 4, 3, 2, 1}));
}

TEST(WorkSplit, ItemsCoverEachPanelAndRowOnce) {
  for (const int panels : {1, 2, 5, 12, 36, 96, 131}) {
    for (const int rows : {1, 8, 128, 129, 512}) {
      for (const int threads : {1, 2, 3, 8}) {
        const WorkSplit split(panels, rows, threads, rows == 512);
        std::vector<int> done(static_cast<std::size_t>(panels * rows));
        for (int number = 0; number < split.items(); ++number) {
          const WorkSplit::Item item = split.item(number);
          for (int panel = item.panel_begin; panel < item.panel_end; ++panel) {
            for (int row = item.row_begin; row < item.row_end; ++row) {
              done[static_cast<std::size_t>(panel * rows + row)] += 1;
            }
          }
        }
        EXPECT_EQ(done, std::vector<int>(done.size(), 1))
            << panels << " panels, " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

TEST(WorkSplit, ItemsAreAsWideAsThePhaseAllows) {
  struct Case {
    int panels, rows, threads, item_panels;
  };
  for (const Case& c : {Case{36, 8, 2, 6}, Case{36, 8, 4, 2}, Case{36, 512, 4, 6},
                        Case{96, 32, 2, 6}, Case{96, 512, 2, 16}, Case{3072, 32, 2, 16},
                        Case{2, 512, 2, 2}}) {
    EXPECT_EQ(WorkSplit(c.panels, c.rows, c.threads, false).item_panels, c.item_panels)
        << c.panels << " panels, " << c.rows << " rows, " << c.threads << " threads";
  }
  EXPECT_LE(WorkSplit(96, 512, 2, true).item_panels, WorkSplit::kLongItemPanels);
}

}  // namespace
}  // namespace turnstile::engine
