// locality_slack: a prompt that is in the cache may go a little before its turn, and no further.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

EngineFacts one_slot() {
  EngineFacts engine = small_engine();
  engine.sequence_slots = 1;
  return engine;
}

// One slot; red's prompts are cold, blue's begin with what the cache holds.
class Library : public FrontDesk {
 public:
  explicit Library(std::string_view slack)
      : FrontDesk("schema = 1\n[defaults]\nlocality_slack = " + std::string(slack) +
                      "\n[depts.main]\n[teams.red]\ndept = \"main\"\n[teams.blue]\n"
                      "dept = \"main\"\n" +
                      std::string(kWholeEngine),
                  one_slot(), {key_of("cold", "red"), key_of("warm", "blue")}) {}

  void come(std::uint64_t id, std::string_view key) {
    TokenFacts facts = tokens({.prompt = 100, .max_tokens = 10});
    if (key == "warm") facts.cached_prompt_tokens = 96;
    EXPECT_TRUE(admission.admit(now, RequestId{id}, resolve(key), facts));
    check();
  }
  // Serves the one that is next, as the cache had it; returns it.
  std::uint64_t serve() {
    const auto started = dispatch();
    if (started.size() != 1) return 0;
    const bool warm = started[0] % 2 == 0;
    admission.on_bound(now, RequestId{started[0]}, warm ? 96 : 0, 0);
    end(started[0], EndKind::Completed, warm ? 4 : 100, 10);
    return started[0];
  }
};

TEST(Locality, WithoutSlackTheTurnDecides) {
  Library library("0");
  for (std::uint64_t id = 1; id <= 5; ++id) library.come(id, id % 2 == 0 ? "warm" : "cold");
  EXPECT_EQ(library.serve(), 1u);
  EXPECT_EQ(library.serve(), 2u) << "blue has had nothing yet";
  EXPECT_EQ(library.last_dispatch.pick.v, library.last_dispatch.pick.v_min);
}

TEST(Locality, WithinTheSlackTheCachedPromptGoesFirst) {
  Library library("\"2k\"");
  for (std::uint64_t id = 1; id <= 6; ++id) library.come(id, id % 2 == 0 ? "warm" : "cold");
  EXPECT_EQ(library.serve(), 1u) << "it started at once";
  for (const std::uint64_t id : {2, 4, 6}) EXPECT_EQ(library.serve(), id);
  EXPECT_EQ(library.serve(), 3u);
}

TEST(Locality, WithinTheSlackTheCachedPromptGoesBeforeItsTurn) {
  Library library("\"2k\"");
  for (const std::uint64_t id : {1, 3}) library.come(id, "cold");
  for (std::uint64_t id = 2; id <= 24; id += 2) library.come(id, "warm");
  EXPECT_EQ(library.serve(), 1u) << "it started at once";
  for (std::uint64_t id = 2; id <= 24; id += 2) EXPECT_EQ(library.serve(), id);
  EXPECT_EQ(library.serve(), 3u) << "blue has had more than red for long";
}

// Blue always has a cached prompt: red's wait is bounded by the slack.
TEST(Locality, UnfairnessIsBoundedByTheSlack) {
  for (const std::int64_t slack : {0, 100, 500}) {
    Library library(std::to_string(slack));
    std::int64_t red = 0;
    std::int64_t blue = 0;
    std::int64_t largest_gap = 0;
    std::uint64_t id = 0;
    for (int i = 0; i < 4; ++i) {
      library.come(id += 2, "warm");
      library.come(id + 1, "cold");
    }
    for (int turn = 0; turn < 300; ++turn) {
      const std::uint64_t served = library.serve();
      ASSERT_NE(served, 0u);
      const bool warm = served % 2 == 0;
      (warm ? blue : red) += warm ? 4 + 20 : 100 + 20;
      id += 2;
      library.come(warm ? id : id + 1, warm ? "warm" : "cold");
      largest_gap = std::max(largest_gap, std::abs(red - blue));
    }
    // U: a prompt and ten expected tokens.
    EXPECT_LE(largest_gap, 2 * (120 + slack)) << slack;
    EXPECT_GE(largest_gap, slack) << "the slack is used";
    EXPECT_GT(red, 0);
  }
}

// Every class keeps its rank: locality chooses inside a class only.
TEST(Locality, NeverCrossesClasses) {
  Library library("\"1M\"");
  library.come(1, "cold");
  library.dispatch();
  TokenFacts facts = FrontDesk::tokens({.prompt = 100, .max_tokens = 10});
  ASSERT_TRUE(library.admission.admit(library.now, RequestId{3},
                                      library.resolve("cold", "demo"), facts));
  library.come(2, "warm");
  library.end(1, EndKind::Completed, 100, 10);
  EXPECT_EQ(library.dispatch(), (std::vector<std::uint64_t>{3}));
}

}  // namespace
}  // namespace turnstile::policy
