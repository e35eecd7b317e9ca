// would_miss_deadline: who is refused at arrival because its first token would come too late.
#include <gtest/gtest.h>

#include <string>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string targets(std::string_view class_lines, std::string_view team_lines = "") {
  return "schema = 1\n[classes.interactive]\n" + std::string(class_lines) +
         "\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + std::string(team_lines) +
         "\n[teams.blue]\ndept = \"main\"\n";
}

// Four slots are taken by requests that will run for long, one waits, and the engine was seen to
// work through one unit a millisecond.
class BusyDesk : public FrontDesk {
 public:
  explicit BusyDesk(std::string_view policy)
      : FrontDesk(policy, small_engine(), {key_of("anna", "red"), key_of("bob", "blue")}) {
    for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(admit(id, "anna"));
    dispatch();
    EXPECT_TRUE(admit(5, "anna"));
    for (std::uint64_t id = 1; id <= 4; ++id) {
      admission.on_tokens(now, RequestId{id}, 16, 0);
    }
    advance(milliseconds(64));
    admission.on_step(now, milliseconds(64));
    // 68 units each in 272 ms, so that a token of a sequence takes 34 ms.
    for (std::uint64_t id = 1; id <= 4; ++id) admission.on_tokens(now, RequestId{id}, 0, 1);
    advance(milliseconds(256));
    for (std::uint64_t id = 1; id <= 4; ++id) admission.on_tokens(now, RequestId{id}, 0, 31);
    admission.on_step(now, milliseconds(256));
  }
};

TEST(Prediction, IsAbsentUntilThePaceIsKnown) {
  FrontDesk desk(targets("ttft = \"1s\""), small_engine(), {key_of("anna", "red")});
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(desk.admit(id, "anna"));
  desk.dispatch();
  for (std::uint64_t id = 5; id <= 40; ++id) {
    const auto queued = desk.admit(id, "anna");
    ASSERT_TRUE(queued);
    EXPECT_FALSE(queued->prediction);
  }
}

TEST(Prediction, CountsTheWorkAhead) {
  BusyDesk desk(targets("ttft = \"1h\""));
  const auto first = desk.admit(6, "anna", {.prompt = 100});
  ASSERT_TRUE(first && first->prediction);
  // Request 5: 16 prompt tokens and 16 expected ones.
  EXPECT_EQ(first->prediction->ahead_units, 48);
  const auto second = desk.admit(7, "anna", {.prompt = 100});
  EXPECT_EQ(second->prediction->ahead_units, 48 + 132);
  EXPECT_GT(second->prediction->raw, first->prediction->raw);
  EXPECT_EQ(second->prediction->likely, second->prediction->raw) << "nothing was learnt yet";
}

// A team with little waiting is not behind another team's long queue.
TEST(Prediction, OtherTeamsCountByTheirWeight) {
  BusyDesk desk(targets("ttft = \"1h\""));
  for (std::uint64_t id = 6; id <= 40; ++id) ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 100}));
  const auto light = desk.admit(41, "bob", {.prompt = 100});
  ASSERT_TRUE(light && light->prediction);
  EXPECT_EQ(light->prediction->ahead_units, 100) << "as much as it gets itself, at equal weights";
  const auto heavy = desk.admit(42, "anna", {.prompt = 100});
  EXPECT_GT(heavy->prediction->ahead_units, 4000);
}

TEST(Prediction, LowerClassesAreNotAhead) {
  BusyDesk desk(targets("ttft = \"1h\""));
  for (std::uint64_t id = 6; id <= 40; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 100, .class_name = "batch"}));
  }
  EXPECT_EQ(desk.admit(41, "anna")->prediction->ahead_units, 48);
  EXPECT_GT(desk.admit(42, "bob", {.class_name = "batch"})->prediction->ahead_units, 48);
}

TEST(WouldMissDeadline, RefusesAtEightTenthsOfTheTarget) {
  BusyDesk desk(targets("ttft = \"10s\""));
  const std::string before = desk.meters();
  std::uint64_t id = 6;
  tl::expected<Queued, Refusal> answer = desk.admit(id, "anna", {.prompt = 400});
  Duration last{};
  std::string last_meters = before;
  while (answer) {
    last = answer->prediction->likely;
    last_meters = desk.meters();
    answer = desk.admit(++id, "anna", {.prompt = 400});
  }
  EXPECT_GT(last, Duration{milliseconds(7000)});
  EXPECT_LE(last, Duration{milliseconds(8000)});
  const Refusal& refusal = answer.error();
  EXPECT_EQ(refusal.code, RefusalCode::WouldMissDeadline);
  EXPECT_EQ(refusal.meter, "prefill_backlog");
  EXPECT_EQ(refusal.scope, "class/interactive");
  EXPECT_EQ(refusal.limit, 8000);
  EXPECT_GT(refusal.asked, 8000);
  EXPECT_EQ(desk.meters(), last_meters) << "a refusal leaves no trace";
  // After the wait the prediction is within the limit.
  EXPECT_GE(*refusal.retry_after, Duration{milliseconds(refusal.asked - 8000)});
  EXPECT_LE(*refusal.retry_after, Duration{milliseconds((refusal.asked - 8000 + 100) * 5 / 4)});
}

TEST(WouldMissDeadline, TheClientsOwnDeadlineIsHeldToo) {
  BusyDesk desk(targets("ttft = \"1h\""));
  for (std::uint64_t id = 6; id <= 20; ++id) ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 400}));
  TokenFacts hurried = FrontDesk::tokens({});
  hurried.client_deadline = seconds(1);
  const auto refused =
      desk.admission.admit(desk.now, RequestId{30}, desk.resolve("anna"), hurried);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::WouldMissDeadline);
  EXPECT_EQ(refused.error().limit, 800);
}

// Who waits in the queue that it was refused for, and comes back as told.
class ReturningDesk : public BusyDesk {
 public:
  ReturningDesk()
      : BusyDesk(targets("ttft = \"10s\"\n[classes.demo]\nttft = \"1h\"\ncan_preempt = false")) {}

  // -> the first that is refused.
  std::uint64_t fill(std::uint64_t id) {
    auto answer = admit(id, "anna", kLong);
    while (answer) answer = admit(++id, "anna", kLong);
    EXPECT_EQ(answer.error().ticket, RequestId{id});
    told = *answer.error().retry_after;
    return id;
  }
  tl::expected<Queued, Refusal> come_back(std::uint64_t id, std::uint64_t ticket) {
    Ask ask{"anna", std::nullopt, std::nullopt};
    ask.ticket = RequestId{ticket};
    auto answer = admission.admit(now, RequestId{id}, *admission.resolve(now, ask), tokens(kLong));
    check();
    return answer;
  }

  static constexpr Wish kLong{.prompt = 400};
  Duration told{};
};

// Those of its key that came after it are behind it, however many they are.
TEST(WouldMissDeadline, WhoKeepsAPlaceHasOnlyThoseBeforeItAhead) {
  ReturningDesk desk;
  const std::uint64_t refused = desk.fill(6);
  for (std::uint64_t id = 6; id < refused; ++id) {
    ASSERT_TRUE(desk.admission.leave(desk.now, RequestId{id}));
  }
  const std::uint64_t newcomer = desk.fill(100);
  ASSERT_GT(newcomer, 110u);
  desk.advance(desk.told);
  const auto queued = desk.come_back(200, refused);
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->ticket, TicketUse::Kept);
  EXPECT_EQ(queued->prediction->ahead_units, 48) << "request 5 and nobody else";
}

// The engine did nothing meanwhile, so the wait that was told was too short.
TEST(WouldMissDeadline, WhoWaitedAsToldIsNotSentAwayForASlowerPace) {
  ReturningDesk desk;
  const std::uint64_t refused = desk.fill(6);
  desk.advance(desk.told);
  ASSERT_FALSE(desk.admit(300, "anna", ReturningDesk::kLong)) << "nobody else is let in";
  const auto queued = desk.come_back(200, refused);
  ASSERT_TRUE(queued);
  EXPECT_GT(queued->prediction->likely, Duration{milliseconds(8000)});
}

// Three times as long is the end of it.
TEST(WouldMissDeadline, WhoWaitedAsToldIsSentAwayForAMuchLongerQueue) {
  ReturningDesk desk;
  const std::uint64_t refused = desk.fill(6);
  for (std::uint64_t id = 300; id < 350; ++id) {
    ASSERT_TRUE(desk.admit(id, "bob", {.prompt = 400, .class_name = "demo"}));
  }
  desk.advance(desk.told);
  const auto answer = desk.come_back(200, refused);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, RefusalCode::WouldMissDeadline);
  EXPECT_EQ(answer.error().limit, 24'000);
}

// The place is looked for before the prediction and taken after it.
TEST(WouldMissDeadline, NobodyIsDisplacedForIt) {
  BusyDesk desk(targets("ttft = \"1h\"", "queue_requests = 3"));
  for (std::uint64_t id = 6; id <= 7; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.prompt = 400, .class_name = "batch"}));
  }
  TokenFacts hurried = FrontDesk::tokens({});
  hurried.client_deadline = milliseconds(1);
  const auto refused =
      desk.admission.admit(desk.now, RequestId{8}, desk.resolve("anna"), hurried);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::WouldMissDeadline);
  desk.dispatch();
  EXPECT_TRUE(desk.refused.empty());
}

TEST(WouldMissDeadline, NeverWhileTheEngineIsIdle) {
  BusyDesk desk(targets("ttft = \"10s\""));
  for (std::uint64_t id = 1; id <= 4; ++id) desk.complete(id);
  desk.dispatch();
  desk.complete(5);
  TokenFacts hurried = FrontDesk::tokens({.prompt = 400});
  hurried.client_deadline = milliseconds(1);
  EXPECT_TRUE(desk.admission.admit(desk.now, RequestId{30}, desk.resolve("anna"), hurried));
}

TEST(WouldMissDeadline, AllowLateServesThemAll) {
  BusyDesk desk(targets("ttft = \"2s\"\nqueue_ttl = \"1h\"\nallow_late = true"));
  for (std::uint64_t id = 6; id <= 40; ++id) EXPECT_TRUE(desk.admit(id, "anna", {.prompt = 400}));
}

// 400 tokens take 400 ms here; the wait ends by that and a step before the target, but never by
// more than a quarter of it.
TEST(QueueDeadline, ComesBeforeAStartThatWouldBeTooLate) {
  BusyDesk desk(targets("ttft = \"5s\""));
  const Instant came = desk.now;
  const auto queued = desk.admit(6, "anna", {.prompt = 400});
  ASSERT_TRUE(queued);
  EXPECT_LT(queued->waits_until, came + milliseconds(5000 - 400));
  EXPECT_GE(queued->waits_until, came + milliseconds(5000 - 1250));
  desk.now = queued->waits_until;
  desk.dispatch();
  ASSERT_TRUE(desk.refused.contains(6));
  EXPECT_EQ(desk.refused[6].code, RefusalCode::QueueDeadline);
  EXPECT_FALSE(desk.refused.contains(5)) << "the pace was not known when it came";
  BusyDesk late(targets("ttft = \"5s\"\nallow_late = true"));
  EXPECT_EQ(late.admit(6, "anna", {.prompt = 400})->waits_until, late.now + seconds(5));
}

// The team's own limit is part of the wait although the engine has room.
TEST(Prediction, CountsTheTeamsOwnSlots) {
  FrontDesk desk(targets("ttft = \"1h\"", "inflight = 1"), small_engine(),
                 {key_of("anna", "red"), key_of("bob", "blue")});
  ASSERT_TRUE(desk.admit(1, "anna", {.max_tokens = 200}));
  ASSERT_TRUE(desk.admit(2, "anna", {.max_tokens = 200}));
  desk.dispatch();
  desk.admission.on_tokens(desk.now, RequestId{1}, 16, 1);
  desk.advance(milliseconds(100));
  desk.admission.on_tokens(desk.now, RequestId{1}, 0, 1);
  desk.admission.on_step(desk.now, milliseconds(1000));
  const auto third = desk.admit(3, "anna");
  const auto other = desk.admit(4, "bob");
  ASSERT_TRUE(third && third->prediction && other && other->prediction);
  // Request 1 goes on to its 64 usual tokens; 2 and 3 come after it.
  EXPECT_GT(third->prediction->raw, Duration{seconds(5)});
  EXPECT_LT(other->prediction->raw, third->prediction->raw);
}

// A prediction that was too short makes the next ones longer.
// Whoever waited in vain teaches too: those who were in time are the lucky ones.
TEST(Prediction, LearnsFromThoseWhoNeverGotOne) {
  BusyDesk desk(targets("ttft = \"20s\""));
  for (std::uint64_t id = 6; id <= 9; ++id) {
    const auto queued = desk.admit(id, "anna");
    ASSERT_TRUE(queued && queued->prediction);
    EXPECT_EQ(queued->prediction->likely, queued->prediction->raw);
  }
  desk.advance(seconds(20));
  desk.dispatch();
  EXPECT_EQ(desk.refused.size(), 5u);
  const auto next = desk.admit(10, "anna");
  ASSERT_TRUE(next && next->prediction);
  EXPECT_GT(next->prediction->likely, next->prediction->raw);
}

TEST(Prediction, LearnsFromTheFirstToken) {
  BusyDesk desk(targets("ttft = \"1h\""));
  const auto before = desk.admit(6, "anna", {.prompt = 100});
  desk.advance(before->prediction->raw * 3);
  desk.complete(1);
  desk.complete(2);
  desk.dispatch();
  desk.admission.on_tokens(desk.now, RequestId{6}, 100, 1);
  const auto after = desk.admit(7, "bob", {.prompt = 100});
  ASSERT_TRUE(after && after->prediction);
  EXPECT_GT(after->prediction->likely, after->prediction->raw);
}

}  // namespace
}  // namespace turnstile::policy
