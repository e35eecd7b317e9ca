// Who fits the engine: watermarks of the classes, floors, and cache blocks by future peak.
#include <gtest/gtest.h>

#include <string>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using Ids = std::vector<std::uint64_t>;

std::string team_and(std::string_view classes) {
  return "schema = 1\n" + std::string(classes) +
         "\n[depts.main]\n[teams.red]\ndept = \"main\"\nqueue_requests = 1000\n";
}

EngineFacts roomy(std::int64_t slots, std::int64_t blocks) {
  EngineFacts engine = small_engine();
  engine.sequence_slots = slots;
  engine.kv_blocks = blocks;
  return engine;
}

TEST(Watermark, FirstDemoAfterAFloodStartsAtOnce) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 0.5"), roomy(8, 1000), anna());
  for (std::uint64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "batch"}));
  }
  EXPECT_EQ(desk.dispatch().size(), 4u) << "half of the slots";
  const auto demo = desk.admit(21, "anna", {.class_name = "demo"});
  ASSERT_TRUE(demo);
  EXPECT_TRUE(demo->starts_now);
  EXPECT_EQ(desk.dispatch(), (Ids{21}));
}

TEST(Watermark, HoldsForCacheBlocksToo) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 0.5\nlength_quantile = 1"), roomy(8, 40),
                 anna());
  // 80 positions are 5 blocks; batch may fill 20.
  for (std::uint64_t id = 1; id <= 8; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 64, .max_tokens = 16, .class_name = "batch"}));
  }
  EXPECT_EQ(desk.dispatch().size(), 4u);
  EXPECT_EQ(desk.committed("kv_blocks"), 20);
  const auto refused =
      desk.admit(9, "anna", {.prompt = 320, .max_tokens = 16, .class_name = "batch"});
  ASSERT_FALSE(refused) << "21 blocks can never be batch's";
  EXPECT_EQ(refused.error().code, RefusalCode::ContextLengthExceeded);
  EXPECT_TRUE(desk.admit(10, "anna", {.prompt = 320, .max_tokens = 16, .class_name = "demo"}));
}

TEST(Watermark, SmallEngineStillServesEveryClass) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 0.1"), roomy(1, 40), anna());
  EXPECT_TRUE(desk.admit(1, "anna", {.max_tokens = 4, .class_name = "batch"}));
  EXPECT_EQ(desk.dispatch(), (Ids{1}));
}

TEST(Floor, DueClassGoesFirstAndAboveItsWatermark) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 0.25\nfloor = 0.25"), roomy(4, 1000),
                 anna());
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "demo"}));
  }
  desk.dispatch();
  ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "batch"}));
  for (std::uint64_t id = 6; id <= 9; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "demo"}));
  }
  desk.dispatch();
  desk.admission.on_tokens(desk.now, RequestId{1}, 16, 16);
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{5})) << "a quarter of 48 units is its credit";
  EXPECT_TRUE(desk.last_dispatch.pick.due);
  desk.admission.on_tokens(desk.now, RequestId{2}, 16, 16);
  desk.complete(2);
  EXPECT_EQ(desk.dispatch(), (Ids{6})) << "it has paid";
  EXPECT_FALSE(desk.last_dispatch.pick.due);
}

// What starts without waiting does not slip past a class that is due.
TEST(Floor, NewcomerOfAHigherClassWaitsBehindADueClass) {
  FrontDesk desk(team_and("[classes.batch]\nfloor = 0.25"), roomy(4, 10), anna());
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 100, .max_tokens = 16, .class_name = "demo"}));
  desk.dispatch();
  ASSERT_TRUE(desk.admit(2, "anna", {.prompt = 90, .max_tokens = 16, .class_name = "batch"}));
  desk.dispatch();
  desk.admission.on_tokens(desk.now, RequestId{1}, 100, 10);
  const auto demo = desk.admit(3, "anna", {.prompt = 16, .max_tokens = 16, .class_name = "demo"});
  ASSERT_TRUE(demo);
  EXPECT_FALSE(demo->starts_now);
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{2, 3}));
}

// 20 answers of 16 tokens that were allowed 200.
void teach_short_answers(FrontDesk& desk, std::string_view name) {
  for (std::uint64_t id = 1000; id < 1020; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 16, .max_tokens = 200, .class_name = name}));
    desk.dispatch();
    desk.admission.on_tokens(desk.now, RequestId{id}, 16, 16);
    desk.complete(id);
  }
}

TEST(FuturePeak, KnownLengthsLetMoreRunThanTheWorstCase) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 1\n[classes.standard]\nwatermark = 1\n"
                          "[classes.interactive]\nwatermark = 1"),
                 roomy(64, 60), anna());
  const auto flood = [&](std::uint64_t first, std::string_view name) {
    for (std::uint64_t id = first; id < first + 40; ++id) {
      EXPECT_TRUE(desk.admit(id, "anna", {.prompt = 16, .max_tokens = 200, .class_name = name}));
    }
    const std::size_t started = desk.dispatch().size();
    for (std::uint64_t id = first; id < first + 40; ++id) {
      if (!desk.end(id, EndKind::Fault, 0, 0)) desk.admission.leave(desk.now, RequestId{id});
    }
    return started;
  };
  EXPECT_EQ(flood(1, "batch"), 4u) << "14 blocks each";
  teach_short_answers(desk, "batch");
  EXPECT_EQ(flood(100, "batch"), 20u) << "two blocks now and one to come";
  teach_short_answers(desk, "demo");
  EXPECT_EQ(flood(200, "demo"), 4u) << "demo takes no risk";
}

// Two answers that end at different times need less than both at their largest.
TEST(FuturePeak, WhatEndsEarlierMakesRoomForWhatGrowsOn) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 1\n[classes.standard]\nwatermark = 1\n"
                          "[classes.interactive]\nwatermark = 1"),
                 roomy(8, 20), anna());
  // 10 blocks at their end, and 8 held by a prompt of 127 with one token to come; together 18 at
  // the moment when the short one ends, though the largest sizes add up to 11 + 8.
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 16, .max_tokens = 160, .class_name = "batch"}));
  ASSERT_TRUE(desk.admit(2, "anna", {.prompt = 126, .max_tokens = 1, .class_name = "batch"}));
  ASSERT_TRUE(desk.admit(3, "anna", {.prompt = 100, .max_tokens = 2, .class_name = "batch"}));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 2, 3}))
      << "2 + 8 + 7 held, and a block for each while the first is still short";
  EXPECT_LE(desk.last_dispatch.kv.peak_blocks, 20);
}

TEST(FuturePeak, BooksFollowTheGrowthAndStayInsideTheCache) {
  FrontDesk desk(team_and("[classes.batch]\nwatermark = 1\n[classes.standard]\nwatermark = 1\n"
                          "[classes.interactive]\nwatermark = 1"),
                 roomy(64, 30), anna());
  teach_short_answers(desk, "batch");
  for (std::uint64_t id = 1; id <= 40; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 16, .max_tokens = 200, .class_name = "batch"}));
  }
  EXPECT_EQ(desk.dispatch().size(), 10u);
  EXPECT_EQ(desk.committed("kv_blocks"), 20);
  for (std::uint64_t id = 1; id <= 10; ++id) {
    desk.admission.on_tokens(desk.now, RequestId{id}, 16, 17);
  }
  EXPECT_EQ(desk.committed("kv_blocks"), 30) << "33 and one to come are three blocks";
  for (int step = 0; step < 5; ++step) {
    for (std::uint64_t id = 1; id <= 10; ++id) {
      desk.admission.on_tokens(desk.now, RequestId{id}, 0, 16);
    }
    EXPECT_EQ(desk.committed("kv_blocks"), 30) << "the engine pauses what does not fit";
    desk.check();
  }
  EXPECT_EQ(desk.dispatch(), Ids{});
  for (std::uint64_t id = 1; id <= 10; ++id) desk.end(id, EndKind::Completed, 16, 97);
  EXPECT_EQ(desk.committed("kv_blocks"), 0);
}

}  // namespace
}  // namespace turnstile::policy
