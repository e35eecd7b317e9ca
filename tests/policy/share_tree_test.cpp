// The fair shares alone: a tree, a loop that serves whoever is picked, and the service delivered.
#include "policy/share_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

namespace turnstile::policy {
namespace {

constexpr ClassIndex kClass = 0;

// Serves `units` to whoever is next and counts what each leaf got.
class Server {
 public:
  explicit Server(ShareTree& tree) : tree_(tree) {}

  void serve(std::int64_t units) {
    const auto leaf = tree_.pick(kClass);
    ASSERT_TRUE(leaf);
    ShareTree::Charge charge = tree_.open_charge(*leaf, kClass);
    tree_.set_units(charge, units);
    got[*leaf] += units;
  }

  std::map<ShareTree::NodeIndex, std::int64_t> got;

 private:
  ShareTree& tree_;
};

struct TwoTeams {
  explicit TwoTeams(std::int64_t first_weight = 1, std::int64_t second_weight = 1)
      : tree(2),
        dept(tree.add(ShareTree::kRoot, 1)),
        first_team(tree.add(dept, first_weight)),
        second_team(tree.add(dept, second_weight)),
        first(tree.add(first_team, 1)),
        second(tree.add(second_team, 1)) {}
  ShareTree tree;
  ShareTree::NodeIndex dept, first_team, second_team, first, second;
};

TEST(ShareTree, NobodyReadyMeansNobodyPicked) {
  TwoTeams t;
  EXPECT_EQ(t.tree.pick(kClass), std::nullopt);
  t.tree.set_backlog(t.first, kClass, true);
  EXPECT_EQ(t.tree.pick(kClass), t.first);
  EXPECT_EQ(t.tree.pick(1), std::nullopt) << "another class has its own queues";
  t.tree.set_backlog(t.first, kClass, false);
  EXPECT_EQ(t.tree.pick(kClass), std::nullopt);
}

TEST(ShareTree, WeightsDivideTheService) {
  TwoTeams t(3, 1);
  Server server(t.tree);
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  for (int i = 0; i < 4000; ++i) server.serve(10);
  EXPECT_NEAR(static_cast<double>(server.got[t.first]) / server.got[t.second], 3.0, 0.01);
}

// One sends requests of 1,000 units, the other of 10: the same service, not the same count.
TEST(ShareTree, LightPrincipalIsServedWhileHeavyOneFloods) {
  TwoTeams t;
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  std::map<ShareTree::NodeIndex, std::int64_t> got;
  for (int i = 0; i < 2000; ++i) {
    const auto leaf = *t.tree.pick(kClass);
    ShareTree::Charge charge = t.tree.open_charge(leaf, kClass);
    const std::int64_t units = leaf == t.first ? 1000 : 10;
    t.tree.set_units(charge, units);
    got[leaf] += units;
  }
  EXPECT_LE(std::abs(got[t.first] - got[t.second]), 2000);
}

TEST(ShareTree, ReturningClientGetsItsShareAndNoMore) {
  TwoTeams t;
  Server server(t.tree);
  t.tree.set_backlog(t.first, kClass, true);
  for (int i = 0; i < 1000; ++i) server.serve(100);
  t.tree.set_backlog(t.second, kClass, true);
  server.got.clear();
  for (int i = 0; i < 100; ++i) server.serve(100);
  EXPECT_EQ(server.got[t.first], 5000);
  EXPECT_EQ(server.got[t.second], 5000) << "an hour of silence is no credit";
}

// Everybody paused; the first to return alone is lifted to where service had come to, so that the
// next one, who paused later, is not behind it by all the service of the pause.
TEST(ShareTree, ClientThatReturnsToAnIdleTreeIsLiftedToTheHighestMinimum) {
  TwoTeams t;
  Server server(t.tree);
  t.tree.set_backlog(t.second, kClass, true);
  for (int i = 0; i < 1000; ++i) server.serve(100);
  t.tree.set_backlog(t.second, kClass, false);
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  server.got.clear();
  for (int i = 0; i < 100; ++i) server.serve(100);
  EXPECT_LE(std::abs(server.got[t.first] - server.got[t.second]), 200);
}

TEST(ShareTree, DebtIsKeptOverAPause) {
  TwoTeams t;
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  ShareTree::Charge charge = t.tree.open_charge(t.first, kClass);
  t.tree.set_units(charge, 1000);
  t.tree.set_backlog(t.first, kClass, false);
  t.tree.set_backlog(t.first, kClass, true);
  Server server(t.tree);
  for (int i = 0; i < 10; ++i) server.serve(100);
  EXPECT_EQ(server.got[t.second], 1000);
}

TEST(ShareTree, NodeAtItsLimitBanksNoCredit) {
  TwoTeams t;
  Server server(t.tree);
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  t.tree.set_gate(t.first_team, false);
  for (int i = 0; i < 1000; ++i) server.serve(100);
  EXPECT_EQ(server.got[t.first], 0);
  t.tree.set_gate(t.first_team, true);
  server.got.clear();
  for (int i = 0; i < 100; ++i) server.serve(100);
  EXPECT_EQ(server.got[t.first], 5000);
  EXPECT_EQ(server.got[t.second], 5000);
}

TEST(ShareTree, GateOfATeamChangesNothingBetweenItsKeys) {
  ShareTree tree(1);
  const auto dept = tree.add(ShareTree::kRoot, 1);
  const auto team = tree.add(dept, 1);
  const auto anna = tree.add(team, 1);
  const auto bob = tree.add(team, 1);
  tree.set_backlog(anna, kClass, true);
  tree.set_backlog(bob, kClass, true);
  ShareTree::Charge charge = tree.open_charge(anna, kClass);
  tree.set_units(charge, 500);
  for (int i = 0; i < 10; ++i) {
    tree.set_gate(team, false);
    tree.set_gate(team, true);
  }
  EXPECT_EQ(tree.pick(kClass), bob);
  EXPECT_EQ(tree.v(anna, kClass) - tree.v(bob, kClass), 500 * ShareTree::kScale);
}

// Departments share first, then teams: a department with ten teams gets no more than one with one.
TEST(ShareTree, SharesAreDividedLevelByLevel) {
  ShareTree tree(1);
  const auto big = tree.add(ShareTree::kRoot, 1);
  const auto small = tree.add(ShareTree::kRoot, 1);
  std::vector<ShareTree::NodeIndex> leaves;
  for (int i = 0; i < 10; ++i) leaves.push_back(tree.add(tree.add(big, 1), 1));
  leaves.push_back(tree.add(tree.add(small, 1), 1));
  for (const auto leaf : leaves) tree.set_backlog(leaf, kClass, true);
  Server server(tree);
  for (int i = 0; i < 2000; ++i) server.serve(10);
  EXPECT_EQ(server.got[leaves.back()], 10'000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(server.got[leaves[i]], 1000);
}

TEST(ShareTree, CorrectionsAddUpToChargingOnce) {
  TwoTeams one(7, 3);
  TwoTeams two(7, 3);
  ShareTree::Charge at_once = one.tree.open_charge(one.first, kClass);
  one.tree.set_units(at_once, 12'347);
  ShareTree::Charge in_steps = two.tree.open_charge(two.first, kClass);
  for (const std::int64_t units : {999, 1000, 1001, 17, 0, 50'000, 12'347}) {
    two.tree.set_units(in_steps, units);
  }
  for (const auto node : {one.first, one.first_team, one.dept}) {
    EXPECT_EQ(one.tree.v(node, kClass), two.tree.v(node, kClass));
  }
}

TEST(ShareTree, WeightAtTheOpeningHoldsUntilTheEnd) {
  TwoTeams t(1, 1);
  ShareTree::Charge charge = t.tree.open_charge(t.first, kClass);
  t.tree.set_units(charge, 1000);
  t.tree.set_weight(t.first_team, 10);
  t.tree.set_units(charge, 0);
  EXPECT_EQ(t.tree.v(t.first_team, kClass), 0);
}

TEST(ShareTree, RemovedLeafLeavesNoTraceAndItsIndexIsUsedAgain) {
  TwoTeams t;
  const auto extra = t.tree.add(t.first_team, 1);
  ShareTree::Charge charge = t.tree.open_charge(extra, kClass);
  t.tree.set_units(charge, 1000);
  t.tree.remove(extra);
  EXPECT_EQ(t.tree.check_invariants(), std::nullopt);
  const auto again = t.tree.add(t.first_team, 1);
  EXPECT_EQ(again, extra);
  EXPECT_EQ(t.tree.v(again, kClass), 0);
}

TEST(ShareTree, CountersAreRebasedBeforeTheyLeaveTheirRange) {
  TwoTeams t;
  Server server(t.tree);
  t.tree.set_backlog(t.first, kClass, true);
  t.tree.set_backlog(t.second, kClass, true);
  constexpr std::int64_t kHuge = std::int64_t{1} << 38;
  for (int i = 0; i < 200; ++i) server.serve(kHuge);
  EXPECT_EQ(server.got[t.first], server.got[t.second]);
  EXPECT_LT(t.tree.v(t.first_team, kClass), INT64_MAX / 2);
}

// Random readiness, gates and charges against a plain recomputation of readiness and of the pick.
TEST(ShareTree, PickIsTheReadyMinimumAtEachLevelOnRandomSteps) {
  std::uint64_t seed = 3;
  const auto next = [&seed](std::uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
  };
  for (int round = 0; round < 100; ++round) {
    ShareTree tree(1);
    std::vector<ShareTree::NodeIndex> teams;
    std::vector<ShareTree::NodeIndex> leaves;
    std::map<ShareTree::NodeIndex, std::vector<ShareTree::NodeIndex>> children;
    for (std::size_t d = 0; d < 2; ++d) {
      const auto dept = tree.add(ShareTree::kRoot, static_cast<std::int64_t>(1 + next(4)));
      children[ShareTree::kRoot].push_back(dept);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto team = tree.add(dept, static_cast<std::int64_t>(1 + next(4)));
        children[dept].push_back(team);
        teams.push_back(team);
        for (std::size_t k = 0; k < 2; ++k) {
          leaves.push_back(tree.add(team, static_cast<std::int64_t>(1 + next(4))));
          children[team].push_back(leaves.back());
        }
      }
    }
    for (int step = 0; step < 200; ++step) {
      const auto leaf = leaves[next(leaves.size())];
      switch (next(3)) {
        case 0: tree.set_backlog(leaf, kClass, next(2) == 0); break;
        case 1: tree.set_gate(teams[next(teams.size())], next(2) == 0); break;
        default: {
          ShareTree::Charge charge = tree.open_charge(leaf, kClass);
          tree.set_units(charge, static_cast<std::int64_t>(next(500)));
        }
      }
      ASSERT_EQ(tree.check_invariants(), std::nullopt);
      ShareTree::NodeIndex node = ShareTree::kRoot;
      while (children.contains(node) && tree.ready(node, kClass)) {
        auto ready = children[node];
        std::erase_if(ready, [&](auto child) { return !tree.ready(child, kClass); });
        node = *std::ranges::min_element(
            ready, {}, [&](auto child) { return tree.v(child, kClass); });
      }
      const auto picked = tree.pick(kClass);
      ASSERT_EQ(picked.has_value(), tree.ready(ShareTree::kRoot, kClass));
      ASSERT_EQ(picked.value_or(ShareTree::kRoot), node);
    }
  }
}

}  // namespace
}  // namespace turnstile::policy
