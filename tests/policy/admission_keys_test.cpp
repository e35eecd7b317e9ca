// Keys that come, change and go while requests wait and run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<std::uint64_t>;

TEST(AdmissionKeys, StateSurvivesAChangeOfLimits) {
  KeyNode anna = key_of("anna", "red");
  anna.requests_per_minute = 40;
  FrontDesk desk(kTwoTeams, small_engine(), {anna});
  for (std::uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  EXPECT_EQ(desk.committed("requests_per_minute/key/anna"), 6);
  anna.requests_per_minute = 20;
  anna.inflight = 2;
  EXPECT_TRUE(desk.admission.set_keys(desk.now, {anna, key_of("bob", "blue")}).empty());
  desk.check();
  EXPECT_EQ(desk.admission.running(), 4) << "a shrunken limit cuts nothing";
  EXPECT_EQ(desk.committed("requests_per_minute/key/anna"), 1) << "level 4 of the new 5";
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), Ids{}) << "still above the new limit";
  desk.complete(2);
  desk.complete(3);
  EXPECT_EQ(desk.dispatch(), (Ids{5}));
}

TEST(AdmissionKeys, GoneKeyLosesItsQueueAndKeepsWhatRuns) {
  FrontDesk desk(R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
requests_per_minute = 40
)",
                 small_engine(), {key_of("anna", "red"), key_of("bob", "red")});
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  const Resolved resolved = desk.resolve("anna");
  EXPECT_TRUE(desk.admission.set_keys(desk.now, {key_of("bob", "red")}).empty());
  desk.check();
  EXPECT_EQ(desk.dispatch(), Ids{});
  ASSERT_TRUE(desk.refused.contains(5));
  EXPECT_EQ(desk.refused[5].code, RefusalCode::KeyDisabled);
  EXPECT_EQ(desk.committed("requests_per_minute/team/red"), 4);
  EXPECT_EQ(desk.admission.running(), 4);
  const auto refused =
      desk.admission.admit(desk.now, RequestId{6}, resolved, FrontDesk::tokens({}));
  ASSERT_FALSE(refused) << "resolved before the key was gone";
  EXPECT_EQ(refused.error().code, RefusalCode::KeyDisabled);
  for (std::uint64_t id = 1; id <= 4; ++id) desk.complete(id);
  EXPECT_EQ(desk.admission.running(), 0);
  EXPECT_EQ(desk.committed("sequence_slots"), 0);
}

// `keys revoke --now` ends what waits in the turn in which the key is closed.
TEST(AdmissionKeys, WhoIsSentAwayWithItsKeyIsNotRefusedAsWell) {
  KeyNode closed = key_of("anna", "red");
  closed.disabled = true;
  const std::vector<KeyNode> ways[] = {
      {}, {closed}, {key_of("anna", "blue")}, {key_of("anna", "nowhere")}};
  for (const std::vector<KeyNode>& keys : ways) {
    FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
    for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
    desk.dispatch();
    for (std::uint64_t id = 4; id <= 6; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
    desk.admission.set_keys(desk.now, keys);
    desk.check();
    EXPECT_EQ(desk.admission.untold(), 2);
    EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{4})) << "started, and not told";
    EXPECT_TRUE(desk.admission.leave(desk.now, RequestId{5})) << "refused, and not told";
    desk.check();
    EXPECT_EQ(desk.admission.untold(), 1);
    EXPECT_EQ(desk.dispatch(), Ids{});
    EXPECT_EQ(desk.refused.size(), 1u);
    EXPECT_TRUE(desk.refused.contains(6));
    for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(desk.complete(id));
    EXPECT_EQ(desk.admission.running(), 0);
  }
}

TEST(AdmissionKeys, KeyThatReturnsWhileItsRequestsRunIsTheSameKey) {
  KeyNode anna = key_of("anna", "red");
  anna.inflight = 1;
  FrontDesk desk(kTwoTeams, small_engine(), {anna});
  ASSERT_TRUE(desk.admit(1, "anna"));
  desk.dispatch();
  desk.admission.set_keys(desk.now, {});
  desk.admission.set_keys(desk.now, {anna});
  desk.check();
  const auto second = desk.admit(2, "anna");
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->starts_now) << "its one slot is taken";
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (Ids{2}));
}

TEST(AdmissionKeys, DisabledKeyIsRefusedAtEveryStage) {
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
  const Resolved resolved = desk.resolve("anna");
  ASSERT_TRUE(desk.admission.take_place(desk.now, RequestId{1}, resolved));
  KeyNode anna = key_of("anna", "red");
  anna.disabled = true;
  desk.admission.set_keys(desk.now, {anna});
  desk.check();
  const auto refused =
      desk.admission.enqueue(desk.now, RequestId{1}, resolved, FrontDesk::tokens({}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::KeyDisabled);
  EXPECT_FALSE(desk.admission.resolve(desk.now, {"anna", std::nullopt, std::nullopt}));
  desk.check();
}

TEST(AdmissionKeys, KeyThatMovesToAnotherTeamStartsAnew) {
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  desk.admission.set_keys(desk.now, {key_of("anna", "blue")});
  desk.check();
  desk.dispatch();
  EXPECT_TRUE(desk.refused.contains(5));
  EXPECT_EQ(desk.resolve("anna").team, "blue");
  desk.complete(1);
  ASSERT_TRUE(desk.admit(6, "anna"));
  EXPECT_EQ(desk.dispatch(), (Ids{6}));
}

TEST(AdmissionKeys, ProblemsAreNamedAndCloseTheKey) {
  FrontDesk desk(kTwoTeams, small_engine(), {});
  KeyNode wrong_class = key_of("bad-class", "red");
  wrong_class.max_class = "platinum";
  KeyNode wrong_limit = key_of("bad-limit", "red");
  wrong_limit.inflight = -3;
  KeyNode wrong_weight = key_of("bad-weight", "red");
  wrong_weight.weight = 0;
  const auto problems = desk.admission.set_keys(
      desk.now, {wrong_class, wrong_limit, wrong_weight, key_of("lost", "nowhere"),
                 key_of("anna", "red"), key_of("anna", "blue")});
  std::vector<std::string> ids;
  for (const KeyProblem& problem : problems) ids.push_back(problem.key_id);
  EXPECT_EQ(ids,
            (std::vector<std::string>{"bad-class", "bad-limit", "bad-weight", "lost", "anna"}));
  for (const std::string_view id : {"bad-class", "bad-limit", "bad-weight", "lost"}) {
    EXPECT_FALSE(desk.admission.resolve(desk.now, {id, std::nullopt, std::nullopt})) << id;
  }
  EXPECT_EQ(desk.resolve("anna").team, "red") << "the first entry holds";
}

// The whole of Admission, with one slot: the flood of one team and the first request of another.
TEST(FairQueue, LightPrincipalIsServedWhileHeavyOneFloods) {
  EngineFacts engine = small_engine();
  engine.sequence_slots = 1;
  FrontDesk desk(kTwoTeams, engine, {key_of("anna", "red"), key_of("bob", "blue")});
  for (std::uint64_t id = 1; id <= 40; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  EXPECT_EQ(desk.dispatch(), (Ids{1}));
  ASSERT_TRUE(desk.admit(100, "bob"));
  desk.advance(milliseconds(100));
  desk.complete(1);
  const Ids second = desk.dispatch();
  desk.complete(second.at(0));
  const Ids third = desk.dispatch();
  EXPECT_TRUE(second.at(0) == 100 || third.at(0) == 100) << "not behind forty others";
}

// A team that was silent while the other worked gets half from now on, not all.
TEST(FairQueue, SilenceIsNoCredit) {
  EngineFacts engine = small_engine();
  engine.sequence_slots = 1;
  FrontDesk desk(kTwoTeams, engine, {key_of("anna", "red"), key_of("bob", "blue")});
  std::uint64_t id = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(desk.admit(++id, "anna"));
    for (const std::uint64_t started : desk.dispatch()) desk.complete(started);
  }
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(desk.admit(++id, "anna"));
    ASSERT_TRUE(desk.admit(++id, "bob"));
  }
  int anna = 0;
  int bob = 0;
  for (int i = 0; i < 40; ++i) {
    const Ids started = desk.dispatch();
    ASSERT_EQ(started.size(), 1u);
    (started[0] % 2 == 1 ? anna : bob) += 1;  // after 200, anna's ids are odd
    desk.complete(started[0]);
  }
  EXPECT_NEAR(anna, bob, 2);
}

}  // namespace
}  // namespace turnstile::policy
