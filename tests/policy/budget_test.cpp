// Token budgets through the whole of Admission: reserve, use, settle. The second half holds the
// regressions that other gateways went through, one test each.
#include <gtest/gtest.h>

#include <string>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string budgeted(std::string_view limits) {
  return "schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + std::string(limits) + "\n";
}

EngineFacts wide_engine() {
  EngineFacts engine = small_engine();
  engine.kv_blocks = 10'000;
  engine.sequence_slots = 64;
  engine.max_model_len = 20'000;
  return engine;
}

constexpr std::string_view kTokens = "tokens_per_minute/team/red";

TEST(Budget, LiveDebitsBeyondTheEstimateAndDebtStopsTheNext) {
  FrontDesk desk(budgeted("tokens_per_minute = 1200"), wide_engine(), {key_of("anna", "red")});
  const auto queued = desk.admit(1, "anna", {.prompt = 100, .max_tokens = 1000});
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->estimated_completion_tokens, 64);
  desk.dispatch();
  EXPECT_EQ(desk.committed(kTokens), 164);
  desk.admission.on_tokens(desk.now, RequestId{1}, 100, 64);
  EXPECT_EQ(desk.committed(kTokens), 164);
  desk.admission.on_tokens(desk.now, RequestId{1}, 0, 236);
  EXPECT_EQ(desk.committed(kTokens), 400) << "100 tokens of debt";
  const auto refused = desk.admit(2, "anna", {.prompt = 10, .max_tokens = 10});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::BudgetTokens);
  EXPECT_EQ(refused.error().meter, kTokens);
  EXPECT_EQ(refused.error().limit, 1200);
  EXPECT_EQ(refused.error().asked, 20);
  EXPECT_GE(*refused.error().retry_after, Duration{seconds(6)}) << "120 tokens at 20 a second";
  EXPECT_LE(*refused.error().retry_after, Duration{milliseconds(7500)});
  const auto settlement = desk.end(1, EndKind::Completed, 100, 300);
  EXPECT_EQ(settlement->budgets[0].used, 400);
  EXPECT_EQ(desk.committed(kTokens), 400);
}

// 300 tokens in the bucket: 100 of the prompt and three quanta, then nothing more.
TEST(Budget, HardEndsTheAnswerWithTheLastPaidToken) {
  FrontDesk desk(budgeted("tokens_per_minute = 1200\ncharge = \"hard\""), wide_engine(),
                 {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 100, .max_tokens = 1000}));
  desk.dispatch();
  EXPECT_EQ(desk.committed(kTokens), 164);
  std::vector<Outcome> out;
  std::int64_t generated = 0;
  for (; generated < 500 && out.empty(); ++generated) {
    desk.admission.on_tokens(desk.now, RequestId{1}, generated == 0 ? 100 : 0, 1);
    EXPECT_LE(desk.committed(kTokens), 300) << "never a debt";
    desk.admission.dispatch(desk.now, out);
  }
  EXPECT_EQ(generated, 192);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<Exhausted>(out[0]));
  // Two tokens of the step that was under way are charged to nobody.
  desk.admission.on_tokens(desk.now, RequestId{1}, 0, 2);
  EXPECT_EQ(desk.end(1, EndKind::Completed, 100, 194)->budgets[0].used, 292);
  EXPECT_EQ(desk.committed(kTokens), 292);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{})) << "said once";
}

TEST(Budget, HardLeavesNobodyShortWhileThereAreTokens) {
  FrontDesk desk(budgeted("tokens_per_minute = 120000\ncharge = \"hard\""), wide_engine(),
                 {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 100, .max_tokens = 200}));
  desk.dispatch();
  for (int i = 0; i < 200; ++i) {
    desk.admission.on_tokens(desk.now, RequestId{1}, i == 0 ? 100 : 0, 1);
  }
  std::vector<Outcome> out;
  desk.admission.dispatch(desk.now, out);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(desk.end(1, EndKind::Completed, 100, 200)->budgets[0].used, 300);
}

TEST(Budget, EstimateFollowsTheKeysFinishedAnswers) {
  FrontDesk desk(budgeted("tokens_per_minute = 120000"), wide_engine(),
                 {key_of("anna", "red"), key_of("bob", "red")});
  desk.admit(1, "anna", {.prompt = 100, .max_tokens = 1000});
  desk.dispatch();
  desk.end(1, EndKind::Completed, 100, 564);
  EXPECT_EQ(desk.admit(2, "anna", {.prompt = 1, .max_tokens = 1000})->estimated_completion_tokens,
            164);
  EXPECT_EQ(desk.admit(3, "bob", {.prompt = 1, .max_tokens = 1000})->estimated_completion_tokens,
            64)
      << "another key";
  EXPECT_EQ(desk.admit(4, "anna", {.prompt = 1, .max_tokens = 1000, .class_name = "batch"})
                ->estimated_completion_tokens,
            64)
      << "another class";
  desk.dispatch();
  desk.end(2, EndKind::Cancelled, 1, 900);
  EXPECT_EQ(desk.admit(5, "anna", {.prompt = 1, .max_tokens = 1000})->estimated_completion_tokens,
            164)
      << "what was cut short teaches nothing";
}

TEST(Budget, MaxReservesAllAndGivesBackTheRestAtTheEnd) {
  FrontDesk desk(budgeted("tokens_per_minute = 4000\ncharge = \"max\""), wide_engine(),
                 {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 100, .max_tokens = 700}));
  desk.dispatch();
  EXPECT_EQ(desk.committed(kTokens), 800);
  EXPECT_FALSE(desk.admit(2, "anna", {.prompt = 100, .max_tokens = 101}));
  desk.end(1, EndKind::Completed, 100, 50);
  EXPECT_EQ(desk.committed(kTokens), 150);
  EXPECT_TRUE(desk.admit(2, "anna", {.prompt = 100, .max_tokens = 101}));
}

TEST(Budget, RequestThatNoFullBucketPaysIsTold) {
  FrontDesk desk(budgeted("tokens_per_minute = 4000\ncharge = \"max\""), wide_engine(),
                 {key_of("anna", "red")});
  const auto refused = desk.admit(1, "anna", {.prompt = 500, .max_tokens = 501});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::ExceedsBudgetCapacity);
  EXPECT_EQ(refused.error().limit, 1000);
  EXPECT_EQ(refused.error().asked, 1001);
  EXPECT_FALSE(refused.error().retry_after.has_value());
}

TEST(Budget, EveryNodeOfThePathIsCharged) {
  KeyNode anna = key_of("anna", "red");
  anna.tokens_per_minute = 40'000;
  FrontDesk desk(R"(
schema = 1
[depts.main]
tokens_per_minute = 80000
cached_weight = 0
[teams.red]
dept = "main"
tokens_per_minute = 60000
cached_weight = 0.5
)",
                 wide_engine(), {anna});
  desk.admit(1, "anna", {.prompt = 200, .max_tokens = 10});
  desk.dispatch();
  desk.admission.on_bound(desk.now, RequestId{1}, 100, 0);
  const auto settlement = desk.end(1, EndKind::Completed, 100, 10);
  ASSERT_EQ(settlement->budgets.size(), 3u);
  EXPECT_EQ(desk.committed("tokens_per_minute/key/anna"), 210);
  EXPECT_EQ(desk.committed(kTokens), 160);
  EXPECT_EQ(desk.committed("tokens_per_minute/dept/main"), 110);
}

TEST(Budget, FaultIsFreeAndCancelPaysWhatWasComputed) {
  FrontDesk desk(budgeted("tokens_per_minute = 40000"), wide_engine(), {key_of("anna", "red")});
  desk.admit(1, "anna", {.prompt = 200, .max_tokens = 100});
  desk.admit(2, "anna", {.prompt = 200, .max_tokens = 100});
  desk.dispatch();
  desk.end(1, EndKind::Fault, 200, 40);
  desk.end(2, EndKind::Cancelled, 120, 0);
  EXPECT_EQ(desk.committed(kTokens), 120);
}

TEST(Budget, WorstMinuteIsTheLimitAndAQuarter) {
  FrontDesk desk(budgeted("tokens_per_minute = 6000\ncharge = \"max\""), wide_engine(),
                 {key_of("anna", "red")});
  std::int64_t used = 0;
  std::uint64_t id = 0;
  for (const Instant end = desk.now + seconds(60); desk.now < end; desk.advance(milliseconds(50))) {
    if (!desk.admit(++id, "anna", {.prompt = 90, .max_tokens = 10})) continue;
    desk.dispatch();
    desk.end(id, EndKind::Completed, 90, 10);
    used += 100;
  }
  EXPECT_LE(used, 6000 + 1500);
  EXPECT_GE(used, 6000 + 1500 - 200) << "and the limit can be used";
}

// Five calls in parallel spent 663 tokens of a limit of 100, because use was counted at the end.
TEST(BudgetRegression, ParallelCallsCannotAllSeeTheSameRemainder) {
  FrontDesk desk(budgeted("tokens_per_minute = 400\ncharge = \"max\""), wide_engine(),
                 {key_of("anna", "red")});
  int admitted = 0;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    admitted += desk.admit(id, "anna", {.prompt = 33, .max_tokens = 17}) ? 1 : 0;
  }
  EXPECT_EQ(admitted, 2) << "the bucket holds 100, each call reserves 50";
}

// The path over the limit counted first and refunded never: refused calls emptied the bucket.
TEST(BudgetRegression, RefusedCallsDoNotEmptyTheBucket) {
  FrontDesk desk(budgeted("tokens_per_minute = 400\nrequests_per_minute = 400"), wide_engine(),
                 {key_of("anna", "red")});
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 80, .max_tokens = 10}));
  desk.dispatch();
  const std::string before = desk.meters();
  for (std::uint64_t id = 2; id < 50; ++id) {
    EXPECT_FALSE(desk.admit(id, "anna", {.prompt = 80, .max_tokens = 10}));
  }
  EXPECT_EQ(desk.meters(), before);
  EXPECT_EQ(desk.admission.rate_view(desk.now, "anna").tokens->remaining, 10);
}

// A floor of 1,024 tokens for an absent max_tokens made every limit below it unusable.
TEST(BudgetRegression, AbsentMaxTokensReservesNoFixedFloor) {
  FrontDesk desk(budgeted("tokens_per_minute = 600"), wide_engine(), {key_of("anna", "red")});
  const auto queued = desk.admit(1, "anna", {.prompt = 20, .max_tokens = std::nullopt});
  ASSERT_TRUE(queued);
  EXPECT_EQ(desk.committed(kTokens), 84);
}

// With max_tokens = 1 a call reserved 2 tokens and generated 10,000 through another field. Here one
// number limits, reserves and goes to the engine.
TEST(BudgetRegression, WhatIsReservedIsWhatTheEngineMayGenerate) {
  FrontDesk desk(budgeted("tokens_per_minute = 40000\ncharge = \"max\""), wide_engine(),
                 {key_of("anna", "red")});
  const auto queued = desk.admit(1, "anna", {.prompt = 10, .max_tokens = 1});
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->max_tokens, 1);
  desk.dispatch();
  EXPECT_EQ(desk.last_dispatch.max_tokens, 1);
  EXPECT_EQ(desk.committed(kTokens), 11);
  const auto second = desk.admit(2, "anna", {.prompt = 10, .max_tokens = 500, .choices = 4});
  ASSERT_TRUE(second);
  EXPECT_EQ(desk.committed(kTokens), 11 + 10 + 4 * 500);
}

// An estimate of zero reserved the whole limit.
TEST(BudgetRegression, SmallestEstimateReservesLittleNotEverything) {
  FrontDesk desk(budgeted("tokens_per_minute = 4000"), wide_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 60; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 0, .max_tokens = 100}));
    desk.dispatch();
    desk.end(id, EndKind::Completed, 0, 0);
    desk.advance(seconds(1));
  }
  ASSERT_TRUE(desk.admit(61, "anna", {.prompt = 0, .max_tokens = 100}));
  EXPECT_EQ(desk.committed(kTokens), 1);
}

}  // namespace
}  // namespace turnstile::policy
