// Limits that depend on the class: floors of budgets, inflight by class, queue caps in tokens,
// orders of a queue.
#include <gtest/gtest.h>

#include <string>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<std::uint64_t>;

std::string limited(std::string_view limits) {
  return "schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + std::string(limits) + "\n";
}

// 400 tokens in the bucket, of which 40 % are demo's alone and 10 % more are not for batch.
constexpr std::string_view kFloors =
    "tokens_per_minute = 1600\ncharge = \"max\"\n"
    "budget_floor = { demo = 0.4, interactive = 0.5 }";

TEST(BudgetFloor, LowerClassesLeaveTheFloorToHigherOnes) {
  EngineFacts engine = small_engine();
  engine.sequence_slots = 16;
  engine.kv_blocks = 1000;
  FrontDesk desk(limited(kFloors), engine, anna());
  const auto ask = [&](std::uint64_t id, std::string_view name, std::int64_t tokens) {
    return desk.admit(id, "anna", {.prompt = tokens - 10, .max_tokens = 10, .class_name = name});
  };
  ASSERT_TRUE(ask(1, "batch", 150));
  const auto batch = ask(2, "batch", 60);
  ASSERT_FALSE(batch) << "it would leave 190, below the 200 that batch must leave";
  EXPECT_EQ(batch.error().code, RefusalCode::BudgetTokens);
  EXPECT_EQ(batch.error().asked, 60);
  // 10 tokens are missing at 26.7 a second.
  EXPECT_GE(*batch.error().retry_after, Duration{milliseconds(370)});
  EXPECT_LE(*batch.error().retry_after, Duration{milliseconds(480)});
  ASSERT_TRUE(ask(3, "interactive", 80));
  ASSERT_FALSE(ask(4, "interactive", 20)) << "160 are demo's";
  ASSERT_TRUE(ask(5, "demo", 170));
}

TEST(BudgetFloor, WhatNeverFitsAboveTheFloorIsSaidSo) {
  FrontDesk desk(limited(kFloors), small_engine(), anna());
  const auto refused =
      desk.admit(1, "anna", {.prompt = 200, .max_tokens = 10, .class_name = "batch"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::ExceedsBudgetCapacity);
  EXPECT_EQ(refused.error().limit, 200);
  EXPECT_TRUE(desk.admit(2, "anna", {.prompt = 200, .max_tokens = 10, .class_name = "demo"}));
}

TEST(InflightByClass, OneClassUsesItsPartOfTheTeamsSlots) {
  FrontDesk desk(limited("inflight = 3\ninflight_by_class = { batch = 1 }"), small_engine(),
                 anna());
  const auto ask = [&](std::uint64_t id, std::string_view name) {
    EXPECT_TRUE(desk.admit(id, "anna", {.class_name = name}));
  };
  ask(1, "batch");
  ask(2, "batch");
  ask(3, "standard");
  EXPECT_EQ(desk.dispatch(), (Ids{1, 3})) << "batch waits for batch, others pass";
  EXPECT_EQ(desk.committed("inflight_by_class/team/red/batch"), 1);
  ask(4, "interactive");
  ask(5, "interactive");
  EXPECT_EQ(desk.dispatch(), (Ids{4})) << "the team's own limit holds for all";
  desk.complete(3);
  EXPECT_EQ(desk.dispatch(), (Ids{5}));
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{2}));
}

TEST(InflightByClass, ZeroIsRefusedForGood) {
  FrontDesk desk(limited("inflight_by_class = { batch = 0 }"), small_engine(), anna());
  const auto refused = desk.admit(1, "anna", {.class_name = "batch"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::QueueFull);
  EXPECT_EQ(refused.error().meter, "inflight_by_class/team/red/batch");
  EXPECT_FALSE(refused.error().retry_after.has_value());
  EXPECT_TRUE(desk.admit(2, "anna", {.class_name = "standard"}));
}

TEST(QueueTokens, WaitingPromptsAreCountedForTeamAndClass) {
  struct Row {
    std::string policy;
    std::string_view meter;
  };
  for (const Row& row : {Row{limited("queue_tokens = 100"), "queue_tokens/team/red"},
                         Row{"schema = 1\n[classes.interactive]\nqueue_tokens = 100\n"
                             "[depts.main]\n[teams.red]\ndept = \"main\"",
                             "queue_tokens/class/interactive"}}) {
    FrontDesk desk(row.policy, small_engine(), anna());
    for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
    desk.dispatch();
    ASSERT_TRUE(desk.admit(5, "anna", {.prompt = 60}));
    EXPECT_EQ(desk.committed(row.meter), 60);
    const auto refused = desk.admit(6, "anna", {.prompt = 50});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, RefusalCode::QueueFull);
    EXPECT_EQ(refused.error().meter, row.meter);
    EXPECT_EQ(refused.error().asked, 50);
    EXPECT_TRUE(refused.error().retry_after.has_value());
    ASSERT_TRUE(desk.admit(7, "anna", {.prompt = 40}));
    desk.complete(1);
    EXPECT_EQ(desk.dispatch(), (Ids{5}));
    EXPECT_EQ(desk.committed(row.meter), 40);
  }
}

// A large prompt holds its place before its tokens are known; they are asked for afterwards.
TEST(QueueTokens, LargePromptIsCountedWhenItIsKnown) {
  FrontDesk desk(limited("queue_tokens = 100"), small_engine(), anna());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  const Resolved resolved = desk.resolve("anna");
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{5}, resolved));
  EXPECT_EQ(desk.committed("queue_tokens/team/red"), 0);
  const std::string before = desk.meters();
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{6}, resolved));
  const auto refused =
      desk.admission.enqueue(desk.now, RequestId{6}, resolved, desk.tokens({.prompt = 101}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().meter, "queue_tokens/team/red");
  EXPECT_EQ(desk.meters(), before) << "with the place it held";
  ASSERT_TRUE(
      desk.admission.enqueue(desk.now, RequestId{5}, resolved, desk.tokens({.prompt = 100})));
  EXPECT_EQ(desk.committed("queue_tokens/team/red"), 100);
  desk.check();
}

TEST(QueueTokens, LongNewcomerDisplacesAsManyAsItNeedsAndNoMore) {
  FrontDesk desk(limited("queue_tokens = 100"), small_engine(), anna());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  for (std::uint64_t id = 5; id <= 7; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 30, .class_name = "batch"}));
  }
  const std::string before = desk.meters();
  ASSERT_FALSE(desk.admit(8, "anna", {.prompt = 101})) << "not even an empty queue has room";
  desk.dispatch();
  EXPECT_TRUE(desk.refused.empty()) << "nobody goes for somebody who cannot come";
  EXPECT_EQ(desk.meters(), before);
  ASSERT_TRUE(desk.admit(9, "anna", {.prompt = 60}));
  desk.dispatch();
  EXPECT_EQ(desk.refused.size(), 2u);
  EXPECT_TRUE(desk.refused.contains(7) && desk.refused.contains(6)) << "the newest first";
  EXPECT_EQ(desk.refused[7].meter, "queue_tokens/team/red");
  EXPECT_EQ(desk.committed("queue_tokens/team/red"), 90);
}

TEST(LeafOrder, DeadlineOfTheClientDecidesUnderEdf) {
  FrontDesk desk("schema = 1\n[classes.interactive]\norder = \"edf\"\n[depts.main]\n"
                 "[teams.red]\ndept = \"main\"",
                 small_engine(), anna());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  ASSERT_TRUE(desk.admit(5, "anna"));
  TokenFacts hurried = FrontDesk::tokens({});
  hurried.client_deadline = seconds(5);
  ASSERT_TRUE(desk.admission.admit(desk.now, RequestId{6}, desk.resolve("anna"), hurried));
  EXPECT_EQ(desk.admission.next_deadline(), desk.now + seconds(5));
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{6}));
}

// Nobody waits beyond its own deadline.
TEST(LeafOrder, ClientsDeadlineEndsTheWait) {
  FrontDesk desk(limited(""), small_engine(), anna());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  TokenFacts hurried = FrontDesk::tokens({});
  hurried.client_deadline = milliseconds(700);
  ASSERT_TRUE(desk.admission.admit(desk.now, RequestId{5}, desk.resolve("anna"), hurried));
  desk.advance(milliseconds(700));
  desk.dispatch();
  ASSERT_TRUE(desk.refused.contains(5));
  EXPECT_EQ(desk.refused[5].code, RefusalCode::QueueDeadline);
  EXPECT_EQ(desk.refused[5].limit, 700);
}

}  // namespace
}  // namespace turnstile::policy
