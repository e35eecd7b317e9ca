// Pause of lower classes: who is paused for whom, what it gives back, and that it comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using Ids = std::vector<std::uint64_t>;

std::string policy_with(std::string_view classes, std::string_view team = "") {
  return "schema = 1\n" + std::string(classes) +
         "\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + std::string(team) + "\n";
}

// Without watermarks below 1, so that lower classes fill the engine.
constexpr std::string_view kFull = R"(
[classes.interactive]
watermark = 1
[classes.standard]
watermark = 1
length_quantile = 1
[classes.batch]
watermark = 1
length_quantile = 1
)";

std::uint64_t number(RequestId id) { return static_cast<std::uint64_t>(id); }

class PauseDesk : public FrontDesk {
 public:
  explicit PauseDesk(std::string_view policy, EngineFacts engine = small_engine())
      : FrontDesk(policy, std::move(engine), {key_of("anna", "red")}) {}

  // As dispatch(), and remembers pauses and resumes.
  void turn() {
    out.clear();
    started.clear();
    paused.clear();
    resumed.clear();
    admission.dispatch(now, out);
    check();
    for (const Outcome& outcome : out) {
      if (const auto* start = std::get_if<Dispatch>(&outcome)) started.push_back(number(start->id));
      if (const auto* pause = std::get_if<Pause>(&outcome)) paused.push_back(number(pause->id));
      if (const auto* resume = std::get_if<Resume>(&outcome)) {
        resumed.push_back(number(resume->id));
      }
    }
  }
  void fill(std::uint64_t first, std::uint64_t last, std::string_view name) {
    for (std::uint64_t id = first; id <= last; ++id) {
      ASSERT_TRUE(admit(id, "anna", {.class_name = name}));
      turn();
      advance(std::chrono::milliseconds(10));
    }
  }

  std::vector<Outcome> out;
  Ids started, paused, resumed;
};

TEST(Preemption, DemoStartsAtOnceInPlaceOfTheNewestOfTheLowestClass) {
  PauseDesk desk(policy_with(kFull));
  desk.fill(1, 2, "batch");
  desk.fill(3, 4, "standard");
  const auto demo = desk.admit(5, "anna", {.class_name = "demo"});
  ASSERT_TRUE(demo);
  EXPECT_TRUE(demo->starts_now);
  EXPECT_EQ(desk.admission.running(), 4);
  EXPECT_EQ(desk.admission.queued(), 1);
  desk.turn();
  EXPECT_EQ(desk.paused, (Ids{2}));
  EXPECT_EQ(desk.started, (Ids{5}));
  ASSERT_TRUE(std::holds_alternative<Pause>(desk.out[0])) << "the engine hears of the pause first";
  EXPECT_EQ(std::get<Pause>(desk.out[0]).by, RequestId{5});
  EXPECT_EQ(desk.committed("sequence_slots"), 4);
  desk.complete(5);
  desk.turn();
  EXPECT_EQ(desk.resumed, (Ids{2}));
}

TEST(Preemption, OnlyClassesThatMayPauseDoAndOnlyPreemptibleOnesAre) {
  PauseDesk desk(policy_with(kFull));
  desk.fill(1, 2, "batch");
  desk.fill(3, 4, "interactive");
  ASSERT_FALSE(desk.admit(5, "anna", {.class_name = "interactive"})->starts_now);
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
  for (std::uint64_t id = 6; id <= 8; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "demo"}));
  }
  desk.turn();
  EXPECT_EQ(desk.started, (Ids{6, 7}));
  EXPECT_EQ(desk.paused, (Ids{2, 1})) << "interactive is never paused, so the third waits";
}

TEST(Preemption, NobodyPausesItsEqual) {
  PauseDesk desk(policy_with("[classes.demo]\npreemptible = true"));
  desk.fill(1, 4, "demo");
  ASSERT_FALSE(desk.admit(5, "anna", {.class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
}

// Its own team's limit is full: a pause elsewhere would not help it, and it waits for its team.
TEST(Preemption, TeamAtItsOwnLimitPausesNobody) {
  PauseDesk desk(policy_with(kFull, "inflight = 4"));
  desk.fill(1, 4, "batch");
  EXPECT_FALSE(desk.admit(5, "anna", {.class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
  desk.complete(1);
  desk.turn();
  EXPECT_EQ(desk.started, (Ids{5}));
}

// Batch is due for its floor and its head waits for a slot. A demo takes no slot that the head
// waits for: it pauses another, as if the head were not there.
TEST(Preemption, DemoNeedNotWaitForTheHeadOfAClassThatIsDue) {
  PauseDesk desk(policy_with(std::string(kFull) + "floor = 0.25"));
  desk.fill(1, 4, "batch");
  // All but over, so that they are no debt of the floor when the fifth begins to wait.
  for (std::uint64_t id = 1; id <= 4; ++id) {
    desk.admission.on_tokens(desk.now, RequestId{id}, 16, 16);
  }
  ASSERT_FALSE(desk.admit(5, "anna", {.class_name = "batch"})->starts_now);
  desk.turn();
  desk.admission.on_tokens(desk.now, RequestId{1}, 16, 0);  // the engine computed it again
  ASSERT_TRUE(desk.admit(6, "anna", {.class_name = "demo"}));
  desk.turn();
  EXPECT_EQ(desk.paused, (Ids{4}));
  EXPECT_EQ(desk.started, (Ids{6}));
  desk.complete(6);
  desk.turn();
  EXPECT_EQ(desk.resumed, (Ids{4})) << "first in the queue of the class that is due";
}

TEST(Preemption, PausedRequestIsFirstInItsQueue) {
  PauseDesk desk(policy_with(kFull));
  desk.fill(1, 4, "batch");
  ASSERT_FALSE(desk.admit(5, "anna", {.class_name = "batch"})->starts_now);
  desk.turn();
  ASSERT_TRUE(desk.admit(6, "anna", {.class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_EQ(desk.paused, (Ids{4}));
  desk.complete(1);
  desk.turn();
  EXPECT_EQ(desk.resumed, (Ids{4}));
  EXPECT_TRUE(desk.started.empty());
}

TEST(Preemption, ASlotOfAnotherTeamIsGivenBackWithItsInflight) {
  FrontDesk desk("schema = 1\n" + std::string(kFull) +
                     "[depts.main]\n[teams.red]\ndept = \"main\"\ninflight = 4\n[teams.blue]\n"
                     "dept = \"main\"\n",
                 small_engine(), {key_of("anna", "red"), key_of("bob", "blue")});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "batch"}));
  }
  desk.dispatch();
  EXPECT_EQ(desk.committed("inflight/team/red"), 4);
  ASSERT_TRUE(desk.admit(5, "bob", {.class_name = "demo"})->starts_now);
  EXPECT_EQ(desk.committed("inflight/team/red"), 3);
  EXPECT_EQ(desk.committed("queue/team/red"), 0) << "a paused request needs no place";
}

TEST(Preemption, NobodyIsPausedMoreThanTwice) {
  PauseDesk desk(policy_with(kFull), [] {
    EngineFacts engine = small_engine();
    engine.sequence_slots = 1;
    return engine;
  }());
  desk.fill(1, 1, "batch");
  for (std::uint64_t id = 2; id <= 3; ++id) {
    ASSERT_TRUE(desk.admit(id, "anna", {.class_name = "demo"})->starts_now);
    desk.turn();
    EXPECT_EQ(desk.paused, (Ids{1}));
    desk.complete(id);
    desk.turn();
    EXPECT_EQ(desk.resumed, (Ids{1}));
  }
  ASSERT_FALSE(desk.admit(4, "anna", {.class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
  desk.complete(1);
  desk.turn();
  EXPECT_EQ(desk.started, (Ids{4}));
}

TEST(Preemption, NobodyIsPausedInVain) {
  EngineFacts engine = small_engine();
  engine.kv_blocks = 12;
  PauseDesk desk(policy_with(kFull), engine);
  // Five blocks each; the demo needs eight, of which interactive holds five for good.
  ASSERT_TRUE(desk.admit(1, "anna", {.prompt = 64, .max_tokens = 16, .class_name = "batch"}));
  ASSERT_TRUE(desk.admit(
      2, "anna", {.prompt = 64, .max_tokens = 16, .class_name = "interactive"}));
  desk.turn();
  ASSERT_FALSE(
      desk.admit(3, "anna", {.prompt = 112, .max_tokens = 16, .class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
}

TEST(Preemption, TheSmallestSetIsPaused) {
  EngineFacts engine = small_engine();
  engine.kv_blocks = 13;
  PauseDesk desk(policy_with(kFull), engine);
  const auto batch = [&](std::uint64_t id, std::int64_t prompt) {
    ASSERT_TRUE(desk.admit(id, "anna",
                           {.prompt = prompt, .max_tokens = 16, .class_name = "batch"}));
    desk.turn();
    desk.advance(std::chrono::milliseconds(10));
  };
  batch(1, 144);  // 10 blocks
  batch(2, 16);   // 2 blocks, newer
  ASSERT_TRUE(desk.admit(3, "anna", {.prompt = 128, .max_tokens = 16, .class_name = "demo"}));
  desk.turn();
  EXPECT_EQ(desk.paused, (Ids{1})) << "pausing the newest as well would free nothing needed";
}

TEST(Preemption, BooksGoOnWhereTheyWere) {
  PauseDesk desk(policy_with(kFull, "tokens_per_minute = 100000"));
  desk.fill(1, 4, "batch");
  desk.admission.on_tokens(desk.now, RequestId{4}, 16, 5);
  const std::int64_t before = desk.committed("tokens_per_minute/team/red");
  ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "demo"})->starts_now);
  desk.turn();
  EXPECT_EQ(desk.paused, (Ids{4}));
  EXPECT_FALSE(desk.admission.leave(desk.now, RequestId{4})) << "it was dispatched";
  // A token of the step that was under way still counts.
  desk.admission.on_tokens(desk.now, RequestId{4}, 0, 1);
  desk.complete(5);
  desk.turn();
  EXPECT_EQ(desk.resumed, (Ids{4}));
  EXPECT_EQ(desk.committed("tokens_per_minute/team/red"), before + 32);
  const auto settlement = desk.end(4, EndKind::Completed, 16, 10);
  ASSERT_TRUE(settlement);
  EXPECT_EQ(settlement->service_units, 36) << "what the pause lost is charged to nobody";
}

TEST(Preemption, PausedRequestCanEndInAnyWay) {
  for (const EndKind kind : {EndKind::Cancelled, EndKind::TimedOut, EndKind::Fault}) {
    PauseDesk desk(policy_with(kFull));
    desk.fill(1, 4, "batch");
    ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "demo"}));
    desk.turn();
    ASSERT_TRUE(desk.end(4, kind, 10, 2));
    desk.complete(5);
    desk.turn();
    EXPECT_TRUE(desk.resumed.empty());
    EXPECT_EQ(desk.admission.queued(), 0);
  }
}

// The end of a paused request may come before its pause is reported.
TEST(Preemption, EndedRequestIsNotHeardOfAgain) {
  PauseDesk desk(policy_with(kFull));
  desk.fill(1, 4, "batch");
  ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "demo"})->starts_now);
  ASSERT_TRUE(desk.end(4, EndKind::Cancelled, 16, 1));
  desk.turn();
  EXPECT_TRUE(desk.paused.empty());
  EXPECT_EQ(desk.started, (Ids{5}));
}

// It was dispatched, so queue_ttl is over; and its key may go without ending what it started.
TEST(Preemption, PausedRequestIsNotRefused) {
  PauseDesk desk(policy_with("[classes.batch]\nqueue_ttl = \"1s\"\nwatermark = 1\n"
                             "[classes.standard]\nwatermark = 1\n[classes.interactive]\n"
                             "watermark = 1"));
  desk.fill(1, 4, "batch");
  ASSERT_TRUE(desk.admit(5, "anna", {.class_name = "demo"}));
  desk.turn();
  EXPECT_EQ(desk.admission.next_deadline(), std::nullopt);
  desk.advance(std::chrono::seconds(100));
  desk.turn();
  EXPECT_EQ(desk.out.size(), 0u);
  desk.admission.set_keys(desk.now, {});
  desk.complete(5);
  desk.turn();
  EXPECT_EQ(desk.resumed, (Ids{4}));
  desk.complete(4);
}

}  // namespace
}  // namespace turnstile::policy
