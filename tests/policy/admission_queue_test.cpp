// The waiting side of the admission actor: places, limits, displacement, deadlines, large prompts.
#include "policy/admission.h"

#include <gtest/gtest.h>

#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<std::uint64_t>;

constexpr std::string_view kOnePlaceToWait = R"(
schema = 1
[defaults]
queue_requests_total = 1
[depts.main]
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
)";

TEST(AdmissionQueue, RequestThatCanStartNeedsNoPlace) {
  FrontDesk desk(R"(
schema = 1
[defaults]
queue_requests = 0
queue_requests_total = 0
[depts.main]
[teams.red]
dept = "main"
)",
                 small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const auto queued = desk.admit(id, "anna");
    ASSERT_TRUE(queued.has_value());
    EXPECT_TRUE(queued->starts_now);
  }
  EXPECT_EQ(desk.dispatch(), (Ids{1, 2, 3, 4}));
  const auto fifth = desk.admit(5, "anna");
  ASSERT_FALSE(fifth.has_value());
  EXPECT_EQ(fifth.error().code, RefusalCode::QueueFull);
  EXPECT_EQ(fifth.error().limit, 0);
  EXPECT_TRUE(fifth.error().retry_after.has_value()) << "a slot will be free at some time";
}

TEST(AdmissionQueue, InflightZeroIsRefusedForGood) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
inflight = 0
)",
                 small_engine(), {key_of("anna", "red")});
  const auto refused = desk.admit(1, "anna");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::QueueFull);
  EXPECT_EQ(refused.error().meter, "inflight/team/red");
  EXPECT_FALSE(refused.error().retry_after.has_value());
}

TEST(AdmissionQueue, QueueLimitsNameTheirMeter) {
  struct Row {
    std::string_view limits;
    std::string_view meter;
    std::string_view scope;
  };
  for (const Row& row : {
           Row{"[defaults]\nqueue_requests_total = 1\n[depts.main]\n[teams.red]\ndept=\"main\"",
               "queue/all", "all"},
           Row{"[classes.interactive]\nqueue_requests = 1\n[depts.main]\n[teams.red]\n"
               "dept=\"main\"",
               "queue/class/interactive", "class/interactive"},
           Row{"[depts.main]\n[teams.red]\ndept=\"main\"\nqueue_requests = 1", "queue/team/red",
               "team/red"},
           Row{"[depts.main]\nqueue_requests = 1\n[teams.red]\ndept=\"main\"", "queue/dept/main",
               "dept/main"},
       }) {
    FrontDesk desk("schema = 1\n" + std::string(row.limits), small_engine(),
                   {key_of("anna", "red")});
    for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(desk.admit(id, "anna")) << row.meter;
    const auto refused = desk.admit(6, "anna");
    ASSERT_FALSE(refused) << row.meter;
    EXPECT_EQ(refused.error().code, RefusalCode::QueueFull);
    EXPECT_EQ(refused.error().meter, row.meter);
    EXPECT_EQ(refused.error().scope, row.scope);
    EXPECT_EQ(refused.error().limit, 1);
    EXPECT_EQ(refused.error().committed, 1);
    EXPECT_TRUE(refused.error().retry_after.has_value());
  }
}

TEST(AdmissionQueue, FullQueueDisplacesTheNewestOfTheLowestClass) {
  FrontDesk desk(R"(
schema = 1
[defaults]
queue_requests_total = 3
[depts.main]
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
requests_per_minute = 40
)",
                 small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  ASSERT_TRUE(desk.admit(5, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(6, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(7, "bob", {.class_name = "standard"}));
  EXPECT_EQ(desk.committed("requests_per_minute/team/blue"), 3);
  ASSERT_TRUE(desk.admit(8, "anna"));
  desk.dispatch();
  ASSERT_EQ(desk.refused.size(), 1u);
  ASSERT_TRUE(desk.refused.contains(6));
  EXPECT_EQ(desk.refused[6].code, RefusalCode::Displaced);
  EXPECT_EQ(desk.refused[6].meter, "queue/all");
  EXPECT_GE(*desk.refused[6].retry_after, Duration{seconds(1)});
  EXPECT_EQ(desk.committed("requests_per_minute/team/blue"), 2) << "a refusal is not counted";
  EXPECT_EQ(desk.committed("queue/all"), 3);
  // Nobody is displaced by an equal.
  ASSERT_FALSE(desk.admit(9, "bob", {.class_name = "batch"}));
}

// Displaced and not told yet, who leaves hears nothing more and holds nothing.
TEST(AdmissionQueue, WhoLeavesBeforeItsRefusalIsToldHearsNothing) {
  FrontDesk desk(R"(
schema = 1
[defaults]
queue_requests_total = 2
[depts.main]
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
requests_per_minute = 40
tokens_per_minute = 4000
)",
                 small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 2, 3, 4}));
  const std::string before = desk.meters();
  ASSERT_TRUE(desk.admit(5, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(6, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(7, "anna"));
  ASSERT_TRUE(desk.admit(8, "anna"));
  EXPECT_EQ(desk.admission.untold(), 2);
  EXPECT_EQ(desk.admission.queued(), 2);
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{6}));
  desk.check();
  EXPECT_EQ(desk.admission.untold(), 1);
  EXPECT_FALSE(desk.admission.leave(desk.now, RequestId{6})) << "it left once";
  EXPECT_EQ(desk.dispatch(), Ids{});
  EXPECT_FALSE(desk.refused.contains(6));
  EXPECT_TRUE(desk.refused.contains(5)) << "the other one is told";
  EXPECT_EQ(desk.admission.untold(), 0);
  EXPECT_FALSE(desk.admission.leave(desk.now, RequestId{5})) << "it was told";
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{7}));
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{8}));
  EXPECT_EQ(desk.meters(), before);
}

// Nobody was told its ticket, so nobody comes with it, and the key is not blamed for that.
TEST(AdmissionQueue, RefusalThatNobodyHearsLeavesNoTicket) {
  FrontDesk desk(kOnePlaceToWait, small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  ASSERT_TRUE(desk.admit(5, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(6, "anna"));
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{5}));
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{6}));
  desk.check();
  const auto resolved = desk.admission.resolve(desk.now, {"bob", "batch", {}, RequestId{5}});
  ASSERT_TRUE(resolved);
  const auto queued =
      desk.admission.admit(desk.now, RequestId{7}, *resolved, FrontDesk::tokens({}));
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->ticket, TicketUse::Unknown);
}

TEST(AdmissionQueue, DisplacementStaysInsideTheFullTeam) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
queue_requests = 1
[teams.blue]
dept = "main"
)",
                 small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  ASSERT_TRUE(desk.admit(5, "bob", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(6, "anna", {.class_name = "standard"}));
  ASSERT_TRUE(desk.admit(7, "anna"));
  desk.dispatch();
  EXPECT_TRUE(desk.refused.contains(6));
  EXPECT_FALSE(desk.refused.contains(5)) << "another team's request frees no place of this one";
}

TEST(AdmissionQueue, WaitEndsAtTheClassesQueueTtl) {
  FrontDesk desk(R"(
schema = 1
[classes.interactive]
queue_ttl = "2s"
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
tokens_per_minute = 4000
)",
                 small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  desk.advance(milliseconds(500));
  ASSERT_TRUE(desk.admit(5, "anna"));
  EXPECT_EQ(desk.admission.next_deadline(), desk.now + seconds(2));
  const std::int64_t tokens_with_five = desk.committed("tokens_per_minute/team/red");
  desk.advance(seconds(2) - Duration{1});
  EXPECT_EQ(desk.dispatch(), Ids{});
  EXPECT_TRUE(desk.refused.empty());
  desk.advance(Duration{1});
  // A slot is free at the very instant: too late, a request is started only before its deadline.
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), Ids{});
  ASSERT_TRUE(desk.refused.contains(5));
  EXPECT_EQ(desk.refused[5].code, RefusalCode::QueueDeadline);
  EXPECT_EQ(desk.refused[5].limit, 2000);
  EXPECT_TRUE(desk.refused[5].retry_after.has_value());
  EXPECT_LT(desk.committed("tokens_per_minute/team/red"), tokens_with_five);
  EXPECT_EQ(desk.admission.next_deadline(), std::nullopt);
}

TEST(AdmissionQueue, LeavingGivesBackPlaceAndTokensButCountsTheRequest) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
tokens_per_minute = 4000
)",
                 small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  const std::int64_t tokens = desk.committed("tokens_per_minute/team/red");
  ASSERT_TRUE(desk.admit(5, "anna"));
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{5}));
  EXPECT_FALSE(desk.admission.leave(desk.now, RequestId{5}));
  EXPECT_EQ(desk.committed("queue/all"), 0);
  EXPECT_EQ(desk.committed("tokens_per_minute/team/red"), tokens);
  EXPECT_EQ(desk.committed("requests_per_minute/team/red"), 5);
  desk.check();
}

TEST(AdmissionQueue, LargePromptHoldsAPlaceWhileItIsRead) {
  FrontDesk desk(R"(
schema = 1
[defaults]
queue_requests_total = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
)",
                 small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  const Resolved resolved = desk.resolve("anna");
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{5}, resolved));
  desk.check();
  EXPECT_EQ(desk.committed("queue/all"), 1);
  EXPECT_EQ(desk.committed("requests_per_minute/team/red"), 5);
  const auto refused = desk.admission.take_place(desk.now, RequestId{6}, resolved);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::QueueFull);
  EXPECT_EQ(desk.committed("requests_per_minute/team/red"), 5);
  const auto queued = desk.admission.enqueue(desk.now, RequestId{5}, resolved, desk.tokens({}));
  ASSERT_TRUE(queued);
  EXPECT_FALSE(queued->starts_now);
  EXPECT_EQ(desk.committed("queue/all"), 1);
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{5}));
  EXPECT_EQ(desk.committed("queue/all"), 0);
}

TEST(AdmissionQueue, RefusalAfterReadingGivesEverythingBack) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
max_input_tokens = 100
)",
                 small_engine(), {key_of("anna", "red")});
  const Resolved resolved = desk.resolve("anna");
  const std::string before = desk.meters();
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{1}, resolved));
  EXPECT_NE(desk.meters(), before);
  const auto refused =
      desk.admission.enqueue(desk.now, RequestId{1}, resolved, desk.tokens({.prompt = 101}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::InputTooLong);
  EXPECT_EQ(desk.meters(), before);
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{2}, resolved));
  desk.admission.withdraw(desk.now, RequestId{2});
  EXPECT_EQ(desk.meters(), before);
  EXPECT_EQ(desk.admission.queued(), 0);
  desk.check();
}

// It has nothing to wait for yet, so no refusal is on its way when it proves invalid.
TEST(AdmissionQueue, WhoIsReadIsNotDisplaced) {
  FrontDesk desk(kOnePlaceToWait, small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  const Resolved batch = desk.resolve("bob", "batch");
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{5}, batch));
  EXPECT_FALSE(desk.admit(6, "anna")) << "there is no other place";
  EXPECT_EQ(desk.admission.untold(), 0);
  desk.admission.set_keys(desk.now, anna());
  desk.admission.withdraw(desk.now, RequestId{5});
  desk.check();
  EXPECT_EQ(desk.dispatch(), Ids{});
  EXPECT_TRUE(desk.refused.empty());
}

// Reading without a place is bounded by the free slots, or big prompts would be tokenized without
// limit.
TEST(AdmissionQueue, OnlyAsManyPromptsAreReadWithoutAPlaceAsCouldRun) {
  FrontDesk desk(R"(
schema = 1
[defaults]
queue_requests_total = 0
[depts.main]
[teams.red]
dept = "main"
)",
                 small_engine(), {key_of("anna", "red")});
  const Resolved resolved = desk.resolve("anna");
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_TRUE(desk.admission.take_place(desk.now, RequestId{id}, resolved));
  }
  EXPECT_FALSE(desk.admission.take_place(desk.now, RequestId{5}, resolved));
  desk.check();
}

}  // namespace
}  // namespace turnstile::policy
