#include "engine/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

namespace turnstile::engine {
namespace {

using Ids = std::vector<TokenId>;

// The definition: find the lowest rank, leftmost, merge, start again.
Ids merge_by_definition(const MergeTable& merges, Ids ids) {
  while (true) {
    std::optional<std::size_t> best;
    std::uint32_t best_rank = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge* merge = merges.find(ids[i], ids[i + 1]);
      if (merge != nullptr && (!best || merge->rank < best_rank)) {
        best = i;
        best_rank = merge->rank;
      }
    }
    if (!best) return ids;
    ids[*best] = merges.find(ids[*best], ids[*best + 1])->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
}

// Tokens 0 .. base-1 are symbols; merge i makes token base + i of two earlier tokens. Ranks are in
// that order, or shuffled, so that a merge can bring about a pair of a lower rank.
MergeTable random_merges(std::mt19937& random, std::uint32_t base, std::uint32_t count,
                         bool in_order) {
  MergeTable merges(count);
  std::vector<std::uint32_t> ranks(count);
  for (std::uint32_t i = 0; i < count; ++i) ranks[i] = i;
  if (!in_order) std::shuffle(ranks.begin(), ranks.end(), random);
  for (std::uint32_t i = 0; i < count; ++i) {
    merges.insert(random() % (base + i), random() % (base + i), {ranks[i], base + i});
  }
  merges.find_order(base + count);
  return merges;
}

void expect_definition(bool in_order, std::size_t max_length) {
  std::size_t unordered = 0;
  for (std::uint32_t seed = 0; seed < 3'000; ++seed) {
    std::mt19937 random(seed);
    const std::uint32_t base = 1 + random() % 4;
    const MergeTable merges = random_merges(random, base, 1 + random() % 12, in_order);
    unordered += merges.is_ordered() ? 0 : 1;
    Ids ids(3 + random() % max_length);
    for (TokenId& id : ids) id = random() % base;
    const Ids kept(ids.begin(), ids.begin() + 3);
    const Ids expected = merge_by_definition(merges, Ids(ids.begin() + 3, ids.end()));
    apply_merges(merges, ids, 3);
    ASSERT_EQ(Ids(ids.begin(), ids.begin() + 3), kept) << "seed " << seed;
    ASSERT_EQ(Ids(ids.begin() + 3, ids.end()), expected) << "seed " << seed;
  }
  if (in_order) {
    EXPECT_EQ(unordered, 0u);
  } else {
    EXPECT_GT(unordered, 300u);
  }
}

TEST(Bpe, ShortPiecesFollowTheDefinition) {
  expect_definition(true, kShortPieceSymbols);
  expect_definition(false, kShortPieceSymbols);
}

TEST(Bpe, LongPiecesOfOrderedListsFollowTheDefinition) { expect_definition(true, 150); }

TEST(Bpe, LongPiecesOfOtherListsFollowTheDefinition) { expect_definition(false, 150); }

TEST(Bpe, AnOrderedListIsToldFromAnotherOne) {
  MergeTable ordered(2);
  ordered.insert(0, 1, {0, 2});
  ordered.insert(2, 1, {1, 3});
  ordered.find_order(4);
  EXPECT_TRUE(ordered.is_ordered());
  MergeTable backwards(2);
  backwards.insert(0, 1, {1, 2});
  backwards.insert(2, 1, {0, 3});
  backwards.find_order(4);
  EXPECT_FALSE(backwards.is_ordered());
}

TEST(MergeTable, TheFirstRankOfAPairStays) {
  MergeTable merges(2);
  EXPECT_TRUE(merges.insert(1, 2, {5, 9}));
  EXPECT_FALSE(merges.insert(1, 2, {6, 8}));
  EXPECT_EQ(merges.find(1, 2)->rank, 5u);
  EXPECT_EQ(merges.find(2, 1), nullptr);
}

}  // namespace
}  // namespace turnstile::engine
