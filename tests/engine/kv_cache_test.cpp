#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace turnstile::engine {
namespace {

constexpr std::size_t kBlockLength = kernels::kKvBlockTokens;

std::vector<TokenId> counting(std::size_t count, TokenId first = 0) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

// A table that holds `tokens`, all computed and published.
BlockTable computed_table(KvCache& kv, const std::vector<TokenId>& tokens, CacheSalt salt = {}) {
  BlockTable table;
  table.salt = salt;
  kv.adopt(table, kv.find_prefix(table, tokens));
  kv.extend(table, tokens.size());
  kv.publish(table, tokens, tokens.size());
  return table;
}

TEST(KvCache, ABlockIsFoundOnlyAfterItsLastPositionWasComputed) {
  KvCache kv(8, true);
  const auto tokens = counting(3 * kBlockLength);
  BlockTable writer;
  kv.extend(writer, tokens.size());
  BlockTable reader;
  EXPECT_TRUE(kv.find_prefix(reader, tokens).blocks.empty());
  kv.publish(writer, tokens, kBlockLength - 1);
  EXPECT_TRUE(kv.find_prefix(reader, tokens).blocks.empty());
  kv.publish(writer, tokens, 2 * kBlockLength - 1);
  EXPECT_EQ(kv.find_prefix(reader, tokens).blocks.size(), 1U);
  kv.publish(writer, tokens, 2 * kBlockLength);
  EXPECT_EQ(kv.find_prefix(reader, tokens).blocks.size(), 2U);
  kv.check_invariants();
}

TEST(KvCache, AFullHitLeavesOneTokenToCompute) {
  KvCache kv(8, true);
  const auto tokens = counting(2 * kBlockLength);
  computed_table(kv, tokens);
  BlockTable again;
  EXPECT_EQ(kv.find_prefix(again, tokens).blocks.size(), 1U);
  EXPECT_EQ(kv.find_prefix(again, counting(2 * kBlockLength + 1)).blocks.size(), 2U);
}

TEST(KvCache, OtherSaltsAndOtherPrefixesFindNothing) {
  KvCache kv(8, true);
  computed_table(kv, counting(3 * kBlockLength), {1, 1});
  BlockTable stranger;
  stranger.salt = {1, 2};
  EXPECT_TRUE(kv.find_prefix(stranger, counting(3 * kBlockLength)).blocks.empty());
  // The second block holds the same ids as before, after another first block.
  BlockTable other;
  other.salt = {1, 1};
  auto tokens = counting(3 * kBlockLength);
  tokens[3] = 999;
  EXPECT_TRUE(kv.find_prefix(other, tokens).blocks.empty());
}

TEST(KvCache, EqualBlocksComputedAtTheSameTimeBecomeOne) {
  KvCache kv(8, true);
  const auto tokens = counting(2 * kBlockLength + 1);
  BlockTable first, second;
  kv.extend(first, tokens.size());
  kv.extend(second, tokens.size());
  EXPECT_EQ(kv.available(), 2U);
  kv.publish(first, tokens, tokens.size());
  kv.publish(second, tokens, tokens.size());
  EXPECT_EQ(kv.available(), 4U);
  EXPECT_EQ(first.blocks[0], second.blocks[0]);
  EXPECT_EQ(first.blocks[1], second.blocks[1]);
  EXPECT_NE(first.blocks[2], second.blocks[2]);
  kv.check_invariants();
}

TEST(KvCache, ReleasedBlocksStayFindableUntilTheirPlaceIsNeeded) {
  KvCache kv(4, true);
  const auto tokens = counting(2 * kBlockLength + 1);
  BlockTable table = computed_table(kv, tokens);
  kv.release(table);
  EXPECT_EQ(kv.available(), 4U);
  BlockTable again;
  EXPECT_EQ(kv.find_prefix(again, tokens).blocks.size(), 2U);
  BlockTable large;
  kv.extend(large, 3 * kBlockLength);  // two free blocks and the tail of the chain
  EXPECT_EQ(kv.find_prefix(again, tokens).blocks.size(), 1U);
  kv.check_invariants();
}

TEST(KvCache, WithoutPrefixCachingNothingIsKept) {
  KvCache kv(4, false);
  const auto tokens = counting(2 * kBlockLength + 1);
  BlockTable table = computed_table(kv, tokens);
  EXPECT_TRUE(kv.find_prefix(table, tokens).blocks.empty());
  kv.release(table);
  BlockTable again;
  EXPECT_TRUE(kv.find_prefix(again, tokens).blocks.empty());
  kv.check_invariants();
}

TEST(KvCache, AForkSharesFullBlocksAndCopiesThePartialOne) {
  KvCache kv(8, true);
  const auto tokens = counting(2 * kBlockLength + 5);
  BlockTable parent = computed_table(kv, tokens);
  BlockTable born;
  const auto copy = kv.fork(parent, born, tokens.size());
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->first, parent.blocks[2]);
  EXPECT_EQ(copy->second, born.blocks[2]);
  EXPECT_NE(copy->first, copy->second);
  EXPECT_EQ(parent.blocks[1], born.blocks[1]);
  EXPECT_EQ(kv.holders(parent.blocks[0]), 2U);
  BlockTable exact_parent = computed_table(kv, counting(kBlockLength, 500));
  BlockTable exact;
  EXPECT_FALSE(kv.fork(exact_parent, exact, kBlockLength)) << "nothing is partly filled";
  EXPECT_EQ(exact.blocks, exact_parent.blocks);
}

// Random tables over few distinct prefixes in a small pool: chains stay whole (the invariants check
// that every cached block's parent is cached), whatever is reclaimed.
TEST(KvCache, ReclaimingNeverTearsAChain) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    KvCache kv(10, true);
    std::vector<std::pair<BlockTable, std::vector<TokenId>>> live;
    for (int i = 0; i < 200; ++i) {
      const std::size_t length = 1 + random() % (4 * kBlockLength);
      auto tokens = counting(length);
      for (std::size_t at = kBlockLength; at < length; at += kBlockLength) {
        tokens[at] = random() % 2;
      }
      if (kv.available() >= blocks_for(length)) {
        live.emplace_back(computed_table(kv, tokens), tokens);
      } else if (!live.empty()) {
        const std::size_t victim = random() % live.size();
        kv.release(live[victim].first);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      kv.check_invariants();
    }
  }
}

}  // namespace
}  // namespace turnstile::engine
