#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

namespace turnstile::engine {
namespace {

using Tokens = std::array<TokenId, kernels::kKvBlockTokens>;

Tokens tokens_from(TokenId first) {
  Tokens tokens{};
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

constexpr CacheSalt kTeamA{1, 2};
constexpr CacheSalt kTeamB{1, 3};

TEST(PrefixKey, DependsOnSaltParentAndEveryToken) {
  const Tokens tokens = tokens_from(100);
  const PrefixKey root = root_key(kTeamA);
  const PrefixKey key = chain_key(root, tokens);
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys{{key.high, key.low}};
  const auto is_new = [&](PrefixKey other) { return keys.insert({other.high, other.low}).second; };
  EXPECT_TRUE(is_new(chain_key(root_key(kTeamB), tokens)));
  EXPECT_TRUE(is_new(chain_key(root_key({2, 1}), tokens)));
  EXPECT_TRUE(is_new(chain_key(key, tokens)));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (const TokenId change : {1U, 0x8000'0000U}) {
      Tokens changed = tokens;
      changed[i] ^= change;
      EXPECT_TRUE(is_new(chain_key(root, changed))) << "token " << i;
    }
  }
  Tokens swapped = tokens;
  std::swap(swapped[0], swapped[1]);
  EXPECT_TRUE(is_new(chain_key(root, swapped)));
}

// Flipping any input bit changes about half of the 128 output bits.
TEST(PrefixKey, EveryBitOfTheTokensReachesTheWholeKey) {
  const PrefixKey root = root_key(kTeamA);
  const PrefixKey key = chain_key(root, tokens_from(7));
  for (std::size_t i = 0; i < kernels::kKvBlockTokens; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      Tokens changed = tokens_from(7);
      changed[i] ^= TokenId{1} << bit;
      const PrefixKey other = chain_key(root, changed);
      const int high = std::popcount(key.high ^ other.high);
      const int low = std::popcount(key.low ^ other.low);
      EXPECT_TRUE(high >= 8 && high <= 56 && low >= 8 && low <= 56) << i << " " << bit;
    }
  }
}

TEST(PrefixCache, FindsWhatWasInsertedAndNothingElse) {
  PrefixCache cache(4);
  const Tokens first = tokens_from(0);
  const Tokens second = tokens_from(50);
  const PrefixKey key0 = chain_key(root_key(kTeamA), first);
  const PrefixKey key1 = chain_key(key0, second);
  EXPECT_FALSE(cache.find(key0, {{}, kTeamA, first}));
  EXPECT_EQ(cache.insert(key0, {{}, kTeamA, first}, 2), 2U);
  EXPECT_EQ(cache.insert(key1, {2, kTeamA, second}, 0), 0U);
  EXPECT_EQ(cache.find(key0, {{}, kTeamA, first}), 2U);
  EXPECT_EQ(cache.find(key1, {2, kTeamA, second}), 0U);
  EXPECT_FALSE(cache.find(chain_key(root_key(kTeamB), first), {{}, kTeamB, first}));
  cache.check_invariants();
}

TEST(PrefixCache, TheFirstBlockWithAContentStaysItsBlock) {
  PrefixCache cache(4);
  const Tokens tokens = tokens_from(0);
  const PrefixKey key = chain_key(root_key(kTeamA), tokens);
  EXPECT_EQ(cache.insert(key, {{}, kTeamA, tokens}, 1), 1U);
  EXPECT_EQ(cache.insert(key, {{}, kTeamA, tokens}, 3), 1U);
  EXPECT_EQ(cache.size(), 1U);
}

// Equal keys are made up here: whoever could provoke them gains a miss, never another's block.
TEST(PrefixCache, AKeyCollisionNeverSharesABlock) {
  PrefixCache cache(4);
  const PrefixKey key{7, 7};
  const Tokens tokens = tokens_from(0);
  const Tokens other = tokens_from(1);
  ASSERT_EQ(cache.insert(key, {{}, kTeamA, tokens}, 1), 1U);
  EXPECT_FALSE(cache.find(key, {{}, kTeamA, other})) << "other tokens";
  EXPECT_FALSE(cache.find(key, {{}, kTeamB, tokens})) << "other salt";
  EXPECT_FALSE(cache.find(key, {1, kTeamA, tokens})) << "other parent";
  EXPECT_FALSE(cache.insert(key, {{}, kTeamB, tokens}, 2));
  EXPECT_EQ(cache.find(key, {{}, kTeamA, tokens}), 1U) << "the first one is unharmed";
}

// Keys from a handful of home slots, so that entries pile up and every removal moves others.
TEST(PrefixCache, RemovalKeepsEveryOtherEntryFindable) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    constexpr std::uint32_t kBlocks = 12;
    PrefixCache cache(kBlocks);
    std::map<kernels::BlockId, PrefixKey> known;
    for (int i = 0; i < 300; ++i) {
      const kernels::BlockId block = random() % kBlocks;
      const Tokens tokens = tokens_from(block);
      if (known.contains(block)) {
        cache.erase(block);
        known.erase(block);
      } else {
        const PrefixKey key{random(), 30 + random() % 3};  // wraps around the end of the table
        ASSERT_EQ(cache.insert(key, {{}, kTeamA, tokens}, block), block);
        known[block] = key;
      }
      cache.check_invariants();
      ASSERT_EQ(cache.size(), known.size());
      for (const auto& [b, key] : known) {
        ASSERT_EQ(cache.find(key, {{}, kTeamA, tokens_from(b)}), b) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace turnstile::engine
