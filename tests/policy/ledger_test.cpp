#include "policy/ledger.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "policy/length_estimate.h"

namespace turnstile::policy {
namespace {

// One budget of 6,000 a minute (bucket of 1,500) and a tree with one key.
struct Books {
  explicit Books(Charge charge, std::int64_t cached_weight_milli = 1000)
      : bucket("tokens_per_minute/team/lab", "team/lab", Bucket::Limit{6000, 1500}, Instant{}),
        leaf(tree.add(tree.add(tree.add(ShareTree::kRoot, 1), 1), 1)),
        budgets{Budget{&bucket, charge, cached_weight_milli}} {
    size.prompt_tokens = 100;
    size.max_tokens = 400;
  }
  void open(std::int64_t estimate) {
    ledger.open_budgets(now, budgets, size, estimate);
    ledger.open_share(tree, leaf, 0);
  }
  std::int64_t debited() const { return bucket.held(); }
  std::int64_t units() const { return tree.v(leaf, 0) / ShareTree::kScale; }

  Instant now{};
  Bucket bucket;
  ShareTree tree{1};
  ShareTree::NodeIndex leaf;
  std::array<Budget, 1> budgets;
  RequestSize size;
  Ledger ledger;
};

TEST(Ledger, LiveReservesTheEstimateAndDebitsWhatGoesBeyond) {
  Books books(Charge::Live);
  books.open(50);
  EXPECT_EQ(books.debited(), 150);
  EXPECT_EQ(books.units(), 100 + 2 * 50);
  books.ledger.on_generated(books.now, books.tree, 50);
  EXPECT_EQ(books.debited(), 150);
  books.ledger.on_generated(books.now, books.tree, 1);
  EXPECT_EQ(books.debited(), 151);
  EXPECT_EQ(books.units(), 100 + 2 * 51);
  books.ledger.on_generated(books.now, books.tree, 200);
  EXPECT_EQ(books.debited(), 351);
  const Settlement settlement = books.ledger.close(books.now, books.tree, 100, 251, true);
  EXPECT_EQ(books.debited(), 0);
  EXPECT_EQ(books.bucket.available(books.now), 1500 - 351);
  ASSERT_EQ(settlement.budgets.size(), 1u);
  EXPECT_EQ(settlement.budgets[0].reserved, 150);
  EXPECT_EQ(settlement.budgets[0].used, 351);
  EXPECT_EQ(settlement.service_units, 100 + 2 * 251);
}

TEST(Ledger, MaxReservesEverythingAndGivesBackTheRest) {
  Books books(Charge::Max);
  books.open(50);
  EXPECT_EQ(books.debited(), 500);
  books.ledger.on_generated(books.now, books.tree, 120);
  EXPECT_EQ(books.debited(), 500);
  books.ledger.close(books.now, books.tree, 100, 120, true);
  EXPECT_EQ(books.bucket.available(books.now), 1500 - 220);
}

TEST(Ledger, ShortAnswerGivesBackTheUnusedEstimate) {
  Books books(Charge::Live);
  books.open(50);
  books.ledger.close(books.now, books.tree, 100, 3, true);
  EXPECT_EQ(books.bucket.available(books.now), 1500 - 103);
  EXPECT_EQ(books.units(), 106);
}

TEST(Ledger, CachedTokensCostTheirWeightInBudgetsAndNothingInShares) {
  for (const auto& [weight, expected] :
       {std::pair{1000, 150}, std::pair{250, 150 - 48}, std::pair{0, 150 - 64}}) {
    Books books(Charge::Live, weight);
    books.open(50);
    books.ledger.on_cached(books.now, books.tree, 64);
    EXPECT_EQ(books.debited(), expected) << weight;
    EXPECT_EQ(books.units(), 36 + 100) << weight;
    books.ledger.close(books.now, books.tree, 36, 50, true);
    EXPECT_EQ(books.bucket.available(books.now), 1500 - expected) << weight;
    EXPECT_EQ(books.units(), 136) << weight;
  }
}

TEST(Ledger, FaultIsChargedNothing) {
  Books books(Charge::Live);
  books.open(50);
  books.ledger.on_generated(books.now, books.tree, 300);
  const Settlement settlement = books.ledger.close(books.now, books.tree, 100, 300, false);
  EXPECT_EQ(books.bucket.available(books.now), 1500);
  EXPECT_EQ(books.units(), 0);
  EXPECT_EQ(settlement.budgets[0].used, 0);
}

TEST(Ledger, CancelledPrefillPaysOnlyWhatWasComputed) {
  Books books(Charge::Max);
  books.open(50);
  books.ledger.close(books.now, books.tree, 40, 0, true);
  EXPECT_EQ(books.bucket.available(books.now), 1500 - 40);
  EXPECT_EQ(books.units(), 40);
}

TEST(Ledger, AbandonedBeforeDispatchCostsNothing) {
  Books books(Charge::Live);
  books.ledger.open_budgets(books.now, books.budgets, books.size, 50);
  EXPECT_EQ(books.bucket.available(books.now), 1350);
  books.ledger.abandon(books.now);
  EXPECT_EQ(books.bucket.available(books.now), 1500);
  EXPECT_EQ(books.debited(), 0);
}

// An estimate learned from long answers must not shut a budget that the prompt fits.
TEST(Ledger, EstimateIsCutToWhatAFullBucketHolds) {
  Books books(Charge::Live);
  EXPECT_EQ(budget_reservation(books.budgets[0], books.size, 5000), 1500);
  EXPECT_TRUE(budget_feasible(books.budgets[0], books.size, 5000));
  books.size.prompt_tokens = 1499;
  EXPECT_TRUE(budget_feasible(books.budgets[0], books.size, 5000));
  books.size.prompt_tokens = 1500;
  EXPECT_FALSE(budget_feasible(books.budgets[0], books.size, 5000));
}

TEST(LengthEstimate, StartsAt64AndMovesAFifthOfTheWay) {
  LengthEstimate estimate;
  EXPECT_EQ(estimate.tokens(1000), 64);
  EXPECT_EQ(estimate.tokens(10), 10) << "never more than max_tokens";
  estimate.learn(164);
  EXPECT_EQ(estimate.tokens(1000), 84);
  estimate.learn(84);
  EXPECT_EQ(estimate.tokens(1000), 84);
  for (int i = 0; i < 200; ++i) estimate.learn(0);
  EXPECT_EQ(estimate.tokens(1000), 1) << "at least one token";
}

}  // namespace
}  // namespace turnstile::policy
