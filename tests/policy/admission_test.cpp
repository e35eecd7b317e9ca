// The admission actor as its callers see it: who starts and who waits, what ends return, rates and
// views. Queues, budgets and keys have files of their own.
#include "policy/admission.h"

#include <gtest/gtest.h>

#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<std::uint64_t>;

TEST(Admission, WaitingRequestStartsWhenASlotIsFree) {
  FrontDesk desk(kTwoTeams, small_engine(), red_and_blue());
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(desk.admission.queued(), 1);
  desk.advance(milliseconds(40));
  desk.complete(2);
  EXPECT_EQ(desk.dispatch(), (Ids{5}));
  EXPECT_EQ(desk.last_dispatch.queue_wait, Duration{milliseconds(40)});
  EXPECT_EQ(desk.admission.queued(), 0);
  EXPECT_EQ(desk.admission.running(), 4);
}

TEST(Admission, OutcomeIsReportedOnce) {
  FrontDesk desk(kTwoTeams, small_engine(), red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna"));
  EXPECT_EQ(desk.admission.next_deadline(), desk.now) << "an outcome waits to be reported";
  EXPECT_EQ(desk.dispatch(), (Ids{1}));
  EXPECT_EQ(desk.dispatch(), Ids{});
  EXPECT_EQ(desk.admission.next_deadline(), std::nullopt);
}

TEST(Admission, HigherClassIsServedFirst) {
  FrontDesk desk(std::string(kTwoTeams) + std::string(kWholeEngine), small_engine(),
                 red_and_blue());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "batch"}));
  ASSERT_TRUE(desk.admit(6, "anna", {.class_name = "standard"}));
  ASSERT_TRUE(desk.admit(7, "anna"));
  ASSERT_TRUE(desk.admit(8, "anna", {.class_name = "demo"}));
  Ids order;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    desk.complete(id);
    for (const std::uint64_t started : desk.dispatch()) order.push_back(started);
  }
  EXPECT_EQ(order, (Ids{8, 7, 6, 5}));
}

// The big head needs the whole cache. Smaller requests behind it, of its class and of a lower one,
// would fit at once; serving them would let a stream of small ones hold it off forever.
TEST(Admission, HeadThatDoesNotFitStopsEverythingBehindIt) {
  FrontDesk desk(std::string(kTwoTeams) + std::string(kWholeEngine), small_engine(),
                 red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 400, .max_tokens = 64}));
  EXPECT_EQ(desk.dispatch(), (Ids{1}));
  ASSERT_TRUE(desk.admit(2, "anna", {.prompt = 511, .max_tokens = 1, .choices = 2}));
  ASSERT_TRUE(desk.admit(3, "bob"));
  ASSERT_TRUE(desk.admit(4, "bob", {.class_name = "batch"}));
  EXPECT_EQ(desk.dispatch(), Ids{});
  EXPECT_EQ(desk.admission.queued(), 3);
  desk.end(1, EndKind::Completed, 400, 64);
  EXPECT_EQ(desk.dispatch(), (Ids{2}));
  desk.end(2, EndKind::Completed, 511, 2);
  EXPECT_EQ(desk.dispatch(), (Ids{3, 4}));
}

TEST(Admission, HigherClassPassesABlockedLowerHead) {
  FrontDesk desk(std::string(kTwoTeams) + std::string(kWholeEngine), small_engine(),
                 red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 400, .max_tokens = 100}));
  ASSERT_TRUE(desk.admit(2, "anna", {.prompt = 511, .max_tokens = 1, .class_name = "batch",
                                     .choices = 2}));
  const auto third = desk.admit(3, "bob");
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->starts_now);
  EXPECT_EQ(desk.dispatch(), (Ids{1, 3}));
}

TEST(Admission, TeamAtItsInflightLimitLetsOthersPass) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
inflight = 1
[teams.blue]
dept = "main"
)",
                 small_engine(), red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna"));
  const auto second = desk.admit(2, "anna");
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->starts_now);
  EXPECT_EQ(second->position, 0);
  ASSERT_TRUE(desk.admit(3, "bob"));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 3}));
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{2}));
}

TEST(Admission, DepartmentAndKeyLimitsHoldToo) {
  KeyNode anna = key_of("anna", "red");
  anna.inflight = 1;
  FrontDesk desk(R"(
schema = 1
[depts.main]
inflight = 2
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
)",
                 small_engine(), {anna, key_of("bob", "blue"), key_of("carl", "red")});
  ASSERT_TRUE(desk.admit(1, "anna"));
  ASSERT_TRUE(desk.admit(2, "anna"));
  ASSERT_TRUE(desk.admit(3, "carl"));
  ASSERT_TRUE(desk.admit(4, "bob"));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 3})) << "anna is at her limit, then the department at its own";
  desk.complete(3);
  EXPECT_EQ(desk.dispatch(), (Ids{4}));
}

// The client leaves between admit() and the report of its dispatch: the lease must go back although
// the gateway never saw it.
TEST(Admission, LeavingBeforeTheReportReturnsTheLease) {
  FrontDesk desk(kTwoTeams, small_engine(), red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna"));
  EXPECT_EQ(desk.committed("sequence_slots"), 1);
  EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{1}));
  EXPECT_EQ(desk.committed("sequence_slots"), 0);
  EXPECT_EQ(desk.committed("kv_blocks"), 0);
  EXPECT_EQ(desk.dispatch(), Ids{});
}

TEST(Admission, LeaseIsReturnedOnceWhateverTheEnd) {
  for (const EndKind kind :
       {EndKind::Completed, EndKind::Cancelled, EndKind::TimedOut, EndKind::Fault}) {
    FrontDesk desk(R"(
schema = 1
[depts.main]
inflight = 8
[teams.red]
dept = "main"
inflight = 2
)",
                   small_engine(), {key_of("anna", "red")});
    const std::string before = desk.meters();
    ASSERT_TRUE(desk.admit(1, "anna"));
    desk.dispatch();
    EXPECT_FALSE(desk.admission.leave(desk.now, RequestId{1})) << "the engine must confirm";
    EXPECT_NE(desk.meters(), before);
    EXPECT_TRUE(desk.end(1, kind, 16, 3).has_value());
    EXPECT_EQ(desk.meters(), before);
    EXPECT_FALSE(desk.end(1, kind, 16, 3).has_value());
    EXPECT_EQ(desk.meters(), before);
  }
}

TEST(Admission, BlocksReturnedByTheEngineLetAnotherStart) {
  FrontDesk desk(std::string(kTwoTeams) + std::string(kWholeEngine), small_engine(),
                 red_and_blue());
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 500, .max_tokens = 12}));
  ASSERT_TRUE(desk.admit(2, "bob", {.prompt = 500, .max_tokens = 12}));
  ASSERT_TRUE(desk.admit(3, "bob", {.prompt = 100, .max_tokens = 28}));
  EXPECT_EQ(desk.dispatch(), (Ids{1, 2}));
  EXPECT_EQ(desk.committed("kv_blocks"), 64);
  desk.admission.on_bound(desk.now, RequestId{2}, 96, 6);
  EXPECT_EQ(desk.dispatch(), Ids{});
  desk.admission.on_blocks_returned(desk.now, RequestId{1}, 2);
  EXPECT_EQ(desk.dispatch(), (Ids{3}));
  EXPECT_EQ(desk.committed("kv_blocks"), 64);
}

TEST(Admission, EveryChoiceNeedsASlotAndBlocks) {
  FrontDesk desk(kTwoTeams, small_engine(), red_and_blue());
  const auto queued = desk.admit(1, "anna", {.prompt = 17, .max_tokens = 16, .choices = 3});
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->kv_blocks, 3 * 3);
  desk.dispatch();
  EXPECT_EQ(desk.committed("sequence_slots"), 3);
  const auto second = desk.admit(2, "bob", {.choices = 2});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->starts_now);
}

TEST(Admission, RequestRateTellsTheExactWait) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 6
bucket_fraction = 0.34
)",
                 small_engine(), {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna"));
  ASSERT_TRUE(desk.admit(2, "anna"));
  const auto refused = desk.admit(3, "anna");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::RateRequests);
  EXPECT_EQ(refused.error().meter, "requests_per_minute/team/red");
  EXPECT_EQ(refused.error().scope, "team/red");
  EXPECT_EQ(refused.error().limit, 6);
  const Duration wait = *refused.error().retry_after;
  EXPECT_GE(wait, Duration{seconds(10)});
  EXPECT_LE(wait, Duration{milliseconds(12'500)});
  desk.advance(seconds(10) - Duration{1000});
  EXPECT_FALSE(desk.admit(3, "anna"));
  desk.advance(wait - seconds(10) + Duration{1000});
  EXPECT_TRUE(desk.admit(3, "anna"));
}

// Both the key and the team are out of requests; coming back after the shorter of the two waits
// would only be refused again. The same for a rate together with a budget.
TEST(Admission, LongestWaitOfThePathIsTold) {
  KeyNode anna = key_of("anna", "red");
  anna.requests_per_minute = 4;
  FrontDesk desk(R"(
schema = 1
[depts.main]
tokens_per_minute = 60
bucket_fraction = 0.5
[teams.red]
dept = "main"
requests_per_minute = 8
bucket_fraction = 0.13
)",
                 small_engine(), {anna});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 0, .max_tokens = 1}));
  const auto rate = desk.admit(2, "anna", {.prompt = 0, .max_tokens = 1});
  ASSERT_FALSE(rate);
  EXPECT_EQ(rate.error().meter, "requests_per_minute/key/anna") << "15 s, the team's only 7.5 s";
  EXPECT_GE(*rate.error().retry_after, Duration{seconds(15)});
  desk.advance(seconds(15));
  ASSERT_TRUE(desk.admit(3, "anna", {.prompt = 29, .max_tokens = 1}));
  const auto both = desk.admit(4, "anna", {.prompt = 29, .max_tokens = 1});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, RefusalCode::RateRequests);
  EXPECT_GE(*both.error().retry_after, Duration{seconds(30)}) << "the budget needs that long";
  desk.advance(*both.error().retry_after);
  EXPECT_TRUE(desk.admit(5, "anna", {.prompt = 29, .max_tokens = 1}));
}

TEST(Admission, RateZeroIsRefusedForGood) {
  for (const std::string_view limit : {"requests_per_minute = 0", "tokens_per_minute = 0"}) {
    FrontDesk desk("schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + std::string(limit),
                   small_engine(), {key_of("anna", "red")});
    const auto refused = desk.admit(1, "anna");
    ASSERT_FALSE(refused) << limit;
    EXPECT_FALSE(refused.error().retry_after.has_value()) << limit;
    EXPECT_EQ(refused.error().limit, 0) << limit;
  }
}

TEST(Admission, RateHeadersShowTheScarcestLimit) {
  KeyNode anna = key_of("anna", "red");
  anna.requests_per_minute = 8;
  FrontDesk desk(R"(
schema = 1
[depts.main]
tokens_per_minute = 8000
[teams.red]
dept = "main"
requests_per_minute = 60
)",
                 small_engine(), {anna, key_of("bob", "red")});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 100, .max_tokens = 20}));
  const RateView view = desk.admission.rate_view(desk.now, "anna");
  ASSERT_TRUE(view.requests && view.tokens);
  EXPECT_EQ(view.requests->limit, 8);
  EXPECT_EQ(view.requests->remaining, 1);
  EXPECT_EQ(view.requests->until_full, Duration{milliseconds(7500)});
  EXPECT_EQ(view.tokens->limit, 8000);
  EXPECT_EQ(view.tokens->remaining, 2000 - 120);
  EXPECT_EQ(view.tokens->until_full, Duration{milliseconds(900)});
  EXPECT_EQ(desk.admission.rate_view(desk.now, "bob").requests->limit, 60);
  EXPECT_FALSE(desk.admission.rate_view(desk.now, "nobody").requests.has_value());
}

TEST(Admission, RecordsOfTheDecisionAreComplete) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
tokens_per_minute = 4000
inflight = 1
)",
                 small_engine(), {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna"));
  const auto second = desk.admit(2, "anna");
  ASSERT_TRUE(second);
  const auto third = desk.admit(3, "anna");
  ASSERT_TRUE(third);
  EXPECT_EQ(third->position, 1);
  EXPECT_EQ(third->ahead_units, 16 + 2 * 16);
  desk.dispatch();
  desk.complete(1);
  desk.dispatch();
  const Dispatch& record = desk.last_dispatch;
  EXPECT_EQ(record.id, RequestId{2});
  EXPECT_EQ(record.pick.class_name, "interactive");
  EXPECT_EQ(record.kv.need_blocks, 2);
  EXPECT_EQ(record.kv.free_blocks, 64);
  std::string checks;
  for (const Check& check : record.checks) {
    checks += std::string(check.meter) + " " + std::to_string(check.committed) + "+" +
              std::to_string(check.asked) + "/" + std::to_string(check.limit) + "; ";
  }
  EXPECT_EQ(checks,
            "requests_per_minute/team/red 1+1/10; queue/team/red 0+1/64; queue/all 0+1/256; "
            "tokens_per_minute/team/red 32+32/1000; ");
}

}  // namespace
}  // namespace turnstile::policy
