#include "policy/waiting_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace turnstile::policy {
namespace {

using std::chrono::seconds;

WaitingRoom::Entry entry(std::uint64_t id, ShareTree::NodeIndex leaf, ClassIndex class_index,
                         std::int64_t deadline_s) {
  return {RequestId{id}, leaf, class_index, id, Instant{seconds(deadline_s)}, 10};
}

TEST(WaitingRoom, EachQueueIsFirstInFirstOut) {
  WaitingRoom room;
  room.add(entry(1, 7, 0, 9));
  room.add(entry(2, 7, 1, 3));
  room.add(entry(3, 7, 0, 1));
  EXPECT_EQ(room.head(Instant{}, 7, 0)->id, RequestId{1});
  EXPECT_EQ(room.head(Instant{}, 7, 1)->id, RequestId{2});
  EXPECT_EQ(room.head(Instant{}, 8, 0), std::nullopt);
  room.remove(*room.head(Instant{}, 7, 0));
  EXPECT_EQ(room.head(Instant{}, 7, 0)->id, RequestId{3});
  EXPECT_EQ(room.check_invariants(), std::nullopt);
}

TEST(WaitingRoom, MostUrgentIsTheEarliestDeadlineThenTheOldest) {
  WaitingRoom room;
  EXPECT_EQ(room.most_urgent(), std::nullopt);
  room.add(entry(1, 7, 0, 9));
  room.add(entry(2, 8, 1, 3));
  room.add(entry(3, 9, 0, 3));
  EXPECT_EQ(room.most_urgent()->id, RequestId{2});
  room.remove(*room.most_urgent());
  EXPECT_EQ(room.most_urgent()->id, RequestId{3});
}

TEST(WaitingRoom, BacklogCountsRequestsAndUnitsOfOneQueue) {
  WaitingRoom room;
  room.add(entry(1, 7, 0, 9));
  room.add(entry(2, 7, 0, 9));
  room.add(entry(3, 7, 1, 9));
  EXPECT_EQ(room.backlog(7, 0).requests, 2);
  EXPECT_EQ(room.backlog(7, 0).units, 20);
  EXPECT_EQ(room.backlog(9, 0).requests, 0);
}

TEST(WaitingRoom, BehindIsWhatAnEntryGoesBeforeInItsQueue) {
  WaitingRoom room({LeafOrder::Fifo, LeafOrder::Edf, LeafOrder::LifoWhenStanding});
  for (ClassIndex c = 0; c < 3; ++c) {
    room.add(entry(2, 7, c, 9));
    room.add(entry(4, 7, c, 5));
    room.add(entry(6, 7, c, 9));
    room.add(entry(8, 8, c, 9));
  }
  EXPECT_EQ(room.behind(entry(3, 7, 0, 1)).requests, 2);
  EXPECT_EQ(room.behind(entry(4, 7, 0, 5)).units, 10) << "not itself";
  EXPECT_EQ(room.behind(entry(3, 7, 1, 8)).requests, 2) << "2 and 6 are due later";
  EXPECT_EQ(room.behind(entry(3, 7, 2, 1)).requests, 0) << "its newest may be served first";
  EXPECT_EQ(room.behind(entry(3, 9, 0, 1)).requests, 0);
}

TEST(WaitingRoom, VictimIsTheNewestOfTheLowestStrictlyLowerClass) {
  WaitingRoom room;
  const auto anyone = [](const WaitingRoom::Entry&) { return true; };
  room.add(entry(1, 7, 3, 9));
  room.add(entry(2, 8, 3, 9));
  room.add(entry(3, 7, 2, 9));
  EXPECT_EQ(room.displaceable(0, anyone)->id, RequestId{2});
  EXPECT_EQ(room.displaceable(2, anyone)->id, RequestId{2});
  EXPECT_EQ(room.displaceable(3, anyone), std::nullopt) << "an equal is no victim";
  const auto of_seven = [](const WaitingRoom::Entry& e) { return e.leaf == 7; };
  EXPECT_EQ(room.displaceable(0, of_seven)->id, RequestId{1});
}

// Random adds and removals against a plain vector.
TEST(WaitingRoom, AgreesWithAPlainListOnRandomSteps) {
  std::uint64_t seed = 11;
  const auto next = [&seed](std::uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
  };
  WaitingRoom room;
  std::vector<WaitingRoom::Entry> model;
  for (std::uint64_t id = 1; id <= 3000; ++id) {
    if (model.size() < 40 && next(2) == 0) {
      model.push_back(entry(id, static_cast<ShareTree::NodeIndex>(next(4)),
                            static_cast<ClassIndex>(next(3)),
                            static_cast<std::int64_t>(next(50))));
      room.add(model.back());
    } else if (!model.empty()) {
      const auto at = model.begin() + static_cast<std::ptrdiff_t>(next(model.size()));
      room.remove(*at);
      model.erase(at);
    }
    ASSERT_EQ(room.check_invariants(), std::nullopt);
    ASSERT_EQ(room.size(), static_cast<std::int64_t>(model.size()));
    for (ShareTree::NodeIndex leaf = 0; leaf < 4; ++leaf) {
      for (ClassIndex c = 0; c < 3; ++c) {
        const auto first = std::ranges::find_if(
            model, [&](const auto& e) { return e.leaf == leaf && e.class_index == c; });
        const auto head = room.head(Instant{}, leaf, c);
        ASSERT_EQ(head.has_value(), first != model.end());
        ASSERT_TRUE(!head || head->id == first->id);
      }
    }
  }
}

TEST(WaitingRoom, EarliestDeadlineFirstWhereTheClassSaysSo) {
  WaitingRoom room({LeafOrder::Fifo, LeafOrder::Edf});
  room.add(entry(1, 7, 1, 9));
  room.add(entry(2, 7, 1, 3));
  room.add(entry(3, 7, 1, 3));
  EXPECT_EQ(room.head(Instant{}, 7, 1)->id, RequestId{2}) << "equal deadlines by arrival";
  room.remove(*room.head(Instant{}, 7, 1));
  room.remove(*room.head(Instant{}, 7, 1));
  EXPECT_EQ(room.head(Instant{}, 7, 1)->id, RequestId{1});
  EXPECT_EQ(room.check_invariants(), std::nullopt);
}

TEST(WaitingRoom, NewestFirstOnlyWhileTheOldestHasUsedUpHalfItsWait) {
  WaitingRoom room({LeafOrder::LifoWhenStanding});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    WaitingRoom::Entry waiting = entry(id, 7, 0, 10);
    waiting.stands_at = Instant{seconds(static_cast<std::int64_t>(4 + id))};
    room.add(waiting);
  }
  EXPECT_EQ(room.head(Instant{seconds(4)}, 7, 0)->id, RequestId{1});
  EXPECT_EQ(room.head(Instant{seconds(5)}, 7, 0)->id, RequestId{3});
  room.remove(*room.head(Instant{}, 7, 0));
  EXPECT_EQ(room.head(Instant{seconds(5)}, 7, 0)->id, RequestId{2}) << "its oldest is younger";
}

// A paused request comes back with its old order.
TEST(WaitingRoom, WhoComesBackTakesItsOldPlace) {
  WaitingRoom room;
  const WaitingRoom::Entry first = entry(1, 7, 0, 9);
  room.add(first);
  room.add(entry(2, 7, 0, 9));
  room.remove(first);
  room.add(first);
  EXPECT_EQ(room.head(Instant{}, 7, 0)->id, RequestId{1});
  EXPECT_EQ(room.check_invariants(), std::nullopt);
}

}  // namespace
}  // namespace turnstile::policy
