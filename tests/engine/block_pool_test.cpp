#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/support/repeats.h"

namespace turnstile::engine {
namespace {

// What the pool is, without links: the definition that the pool is held against.
struct PlainPool {
  std::vector<int> holders;
  std::vector<bool> cached;
  std::deque<kernels::BlockId> idle;  // oldest first

  std::size_t free_count() const {
    std::size_t count = 0;
    for (std::size_t b = 0; b < holders.size(); ++b) count += holders[b] == 0 && !cached[b];
    return count;
  }
};

void expect_equal(const BlockPool& pool, const PlainPool& plain) {
  pool.check_invariants();
  ASSERT_EQ(pool.free(), plain.free_count());
  ASSERT_EQ(pool.idle(), plain.idle.size());
  for (kernels::BlockId b = 0; b < pool.total(); ++b) {
    ASSERT_EQ(pool.holders(b), static_cast<std::uint32_t>(plain.holders[b]));
    ASSERT_EQ(pool.is_cached(b), plain.cached[b]);
  }
}

// Applies operation `code` (kind and block) to both where it is allowed; false where it is not.
bool apply(int code, BlockPool& pool, PlainPool& plain) {
  const int blocks = static_cast<int>(plain.holders.size());
  const int kind = code / blocks;
  const auto block = static_cast<kernels::BlockId>(code % blocks);
  switch (kind) {
    case 0: {  // take; once, not for each block
      if (block != 0) return false;
      const auto taken = pool.try_take();
      if (plain.free_count() > 0) {
        EXPECT_TRUE(taken && !taken->was_cached);
        EXPECT_TRUE(plain.holders[taken->block] == 0 && !plain.cached[taken->block]);
      } else if (!plain.idle.empty()) {
        EXPECT_TRUE(taken && taken->was_cached);
        EXPECT_EQ(taken->block, plain.idle.front()) << "the block released longest ago";
        plain.cached[taken->block] = false;
        plain.idle.pop_front();
      } else {
        EXPECT_FALSE(taken);
        return true;
      }
      plain.holders[taken->block] = 1;
      return true;
    }
    case 1:  // share
      if (plain.holders[block] == 0 && !plain.cached[block]) return false;
      pool.share(block);
      std::erase(plain.idle, block);
      ++plain.holders[block];
      return true;
    case 2:  // release
      if (plain.holders[block] == 0) return false;
      pool.release(block);
      if (--plain.holders[block] == 0 && plain.cached[block]) plain.idle.push_back(block);
      return true;
    default:  // mark cached
      if (plain.holders[block] == 0) return false;
      pool.mark_cached(block);
      plain.cached[block] = true;
      return true;
  }
}

void explore(std::vector<int>& history, int depth, int blocks) {
  if (depth == 0) return;
  for (int code = 0; code < 4 * blocks; ++code) {
    BlockPool pool(static_cast<std::size_t>(blocks));
    PlainPool plain{std::vector<int>(static_cast<std::size_t>(blocks), 0),
                    std::vector<bool>(static_cast<std::size_t>(blocks), false),
                    {}};
    for (const int earlier : history) apply(earlier, pool, plain);
    if (!apply(code, pool, plain)) continue;
    expect_equal(pool, plain);
    if (::testing::Test::HasFatalFailure()) return;
    history.push_back(code);
    explore(history, depth - 1, blocks);
    history.pop_back();
  }
}

// Every order of take, share, release and mark-cached on two blocks, up to nine operations deep,
// against the plain definition.
TEST(BlockPool, EveryOrderOfOperationsAgreesWithThePlainDefinition) {
  std::vector<int> history;
  explore(history, tests::kAddressSanitizer ? 7 : 9, 2);
}

TEST(BlockPool, EveryOrderOfOperationsOnThreeBlocksAgreesWithThePlainDefinition) {
  std::vector<int> history;
  explore(history, 7, 3);
}

TEST(BlockPool, RunsOutOnlyWhenEveryBlockIsHeld) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.try_take());
  EXPECT_FALSE(pool.try_take());
  EXPECT_EQ(pool.available(), 0U);
  pool.release(1);
  EXPECT_EQ(pool.try_take()->block, 1U);
}

TEST(BlockPool, FreeBlocksAreTakenBeforeCachedOnes) {
  BlockPool pool(2);
  const auto first = pool.try_take()->block;
  pool.mark_cached(first);
  pool.release(first);
  EXPECT_FALSE(pool.try_take()->was_cached);
  EXPECT_TRUE(pool.try_take()->was_cached);
}

TEST(BlockPool, ASharedIdleBlockLeavesTheIdleListAndReturnsAsTheYoungest) {
  BlockPool pool(2);
  for (kernels::BlockId b = 0; b < 2; ++b) {
    pool.try_take();
    pool.mark_cached(b);
  }
  pool.release(0);
  pool.release(1);
  pool.share(0);
  pool.release(0);
  EXPECT_EQ(pool.try_take()->block, 1U);
}

TEST(BlockPoolDeathTest, ReleasingWithoutHoldingIsOurBug) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.release(0), "released once by each holder");
}

TEST(BlockPoolDeathTest, SharingAFreeBlockIsOurBug) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.share(0), "no content to share");
}

}  // namespace
}  // namespace turnstile::engine
