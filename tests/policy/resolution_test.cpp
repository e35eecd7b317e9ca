// Model, class and size: what a request gets before any meter is looked at.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/admission.h"
#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

constexpr std::string_view kModels = R"(
schema = 1
[models.chat]
serves = "engine"
max_class = "demo"
[models.slow]
serves = "engine"
max_class = "batch"
max_input_tokens = 50
[models.far]
serves = "another engine"
[depts.main]
[teams.red]
dept = "main"
max_class = "interactive"
[teams.blue]
dept = "main"
models = ["slow"]
default_class = "standard"
)";

TEST(Resolution, ClassIsTheLowestOfWishAndMaxima) {
  struct Row {
    std::string_view key;
    std::optional<std::string_view> model;
    std::optional<std::string_view> wish;
    std::string_view effective;
    std::string_view by;  // empty: not lowered
  };
  KeyNode carl = key_of("carl", "red");
  carl.max_class = "standard";
  carl.default_class = "batch";
  FrontDesk desk(kModels, small_engine(), {key_of("anna", "red"), key_of("bob", "blue"), carl});
  for (const Row& row : {
           Row{"anna", std::nullopt, std::nullopt, "interactive", ""},
           Row{"anna", std::nullopt, "demo", "interactive", "team/red"},
           Row{"anna", std::nullopt, "batch", "batch", ""},
           Row{"anna", "slow", "demo", "batch", "model/slow"},
           Row{"bob", std::nullopt, std::nullopt, "batch", "model/slow"},
           Row{"carl", std::nullopt, std::nullopt, "batch", ""},
           Row{"carl", std::nullopt, "demo", "standard", "key/carl"},
       }) {
    const auto resolved = desk.admission.resolve(desk.now, {row.key, row.wish, row.model});
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->class_name, row.effective);
    ASSERT_EQ(resolved->clamp.has_value(), !row.by.empty());
    if (resolved->clamp) {
      EXPECT_EQ(resolved->clamp->by, row.by);
      EXPECT_EQ(resolved->clamp->effective, row.effective);
    }
  }
}

TEST(Resolution, ClampNeverRaises) {
  FrontDesk desk(kModels, small_engine(), {key_of("anna", "red"), key_of("bob", "blue")});
  const std::vector<std::string_view> classes = {"demo", "interactive", "standard", "batch"};
  for (std::size_t wish = 0; wish < classes.size(); ++wish) {
    for (const std::string_view key : {"anna", "bob"}) {
      const auto resolved = desk.admission.resolve(desk.now, {key, classes[wish], std::nullopt});
      ASSERT_TRUE(resolved);
      EXPECT_GE(resolved->class_index, wish);
    }
  }
}

TEST(Resolution, ModelIsLookedUpAndAllowed) {
  FrontDesk desk(kModels, small_engine(), {key_of("anna", "red"), key_of("bob", "blue")});
  const auto code = [&](std::string_view key, std::optional<std::string_view> model) {
    const auto resolved = desk.admission.resolve(desk.now, {key, std::nullopt, model});
    return resolved ? "model " + resolved->model_alias
                    : std::string(to_string(resolved.error().code)) + " " + resolved.error().param;
  };
  EXPECT_EQ(code("anna", std::nullopt), "model chat");
  EXPECT_EQ(code("anna", "slow"), "model slow");
  EXPECT_EQ(code("anna", "nothing"), "model_not_found model");
  EXPECT_EQ(code("anna", "far"), "model_not_found model") << "no engine serves it";
  EXPECT_EQ(code("anna", "engine"), "model_not_found model") << "the engine's name is no alias";
  EXPECT_EQ(code("bob", std::nullopt), "model slow") << "the first that the key may use";
  EXPECT_EQ(code("bob", "chat"), "model_not_allowed model");
  EXPECT_EQ(code("nobody", "chat"), "key_disabled ");
  EXPECT_EQ(desk.admission.models_for("anna"), (std::vector<std::string>{"chat", "slow"}));
  EXPECT_EQ(desk.admission.models_for("bob"), (std::vector<std::string>{"slow"}));
  EXPECT_EQ(desk.admission.models_for("nobody"), std::vector<std::string>{});
}

TEST(Resolution, WithoutModelsTheEnginesNameIsItsAlias) {
  KeyNode carl = key_of("carl", "red");
  carl.models = std::vector<std::string>{"something else"};
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red"), carl});
  EXPECT_EQ(desk.resolve("anna").model_alias, "engine");
  EXPECT_EQ(desk.admission.models_for("carl"), std::vector<std::string>{});
  const auto refused = desk.admission.resolve(desk.now, {"carl", std::nullopt, std::nullopt});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::ModelNotAllowed);
}

TEST(Resolution, UnknownClassIsAnInvalidValue) {
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
  const auto refused = desk.admission.resolve(desk.now, {"anna", "platinum", std::nullopt});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::InvalidValue);
  EXPECT_EQ(refused.error().param, "class");
}

TEST(Resolution, DisabledTeamOrDepartmentClosesItsKeys) {
  for (const std::string_view policy : {
           "schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\ndisabled = true\n",
           "schema = 1\n[depts.main]\ndisabled = true\n[teams.red]\ndept = \"main\"\n",
       }) {
    FrontDesk desk(policy, small_engine(), {key_of("anna", "red")});
    const auto refused = desk.admission.resolve(desk.now, {"anna", std::nullopt, std::nullopt});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, RefusalCode::KeyDisabled);
  }
}

struct SizeRow {
  FrontDesk::Wish wish;
  std::string_view answer;  // "max_tokens N" or "code param scope limit"
};

std::string size_answer(FrontDesk& desk, const FrontDesk::Wish& wish, std::uint64_t id) {
  const auto queued = desk.admit(id, "anna", wish);
  if (queued) {
    desk.admission.leave(desk.now, RequestId{id});
    return "max_tokens " + std::to_string(queued->max_tokens);
  }
  const Refusal& refusal = queued.error();
  EXPECT_FALSE(refusal.retry_after.has_value());
  return std::string(to_string(refusal.code)) + " " + refusal.param + " " + refusal.scope + " " +
         std::to_string(refusal.limit);
}

TEST(RequestSize, LimitsInTheOrderOfTheInterface) {
  FrontDesk desk(R"(
schema = 1
[classes.interactive]
watermark = 1
max_output_tokens = 200
[depts.main]
max_input_tokens = 300
default_max_tokens = 90
[teams.red]
dept = "main"
max_output_tokens = 100
)",
                 small_engine(), {key_of("anna", "red")});
  std::uint64_t id = 0;
  for (const SizeRow& row : {
           SizeRow{{.prompt = 10, .max_tokens = 100}, "max_tokens 100"},
           SizeRow{{.prompt = 10, .max_tokens = 101}, "invalid_value max_tokens team/red 100"},
           SizeRow{{.prompt = 10, .max_tokens = 0}, "invalid_value max_tokens  1"},
           SizeRow{{.prompt = 10, .max_tokens = std::nullopt}, "max_tokens 90"},
           SizeRow{{.prompt = 300, .max_tokens = 1}, "max_tokens 1"},
           SizeRow{{.prompt = 301, .max_tokens = 1}, "input_too_long prompt dept/main 300"},
           SizeRow{{.prompt = 512, .max_tokens = 1}, "context_length_exceeded prompt engine 512"},
           SizeRow{{.prompt = 500, .max_tokens = 13},
                   "context_length_exceeded max_tokens engine 512"},
           SizeRow{{.prompt = 10, .max_tokens = 1, .choices = 5}, "invalid_value n engine 4"},
           SizeRow{{.prompt = 256, .max_tokens = 1, .choices = 4},
                   "context_length_exceeded prompt engine 256"},
       }) {
    EXPECT_EQ(size_answer(desk, row.wish, ++id), row.answer);
  }
}

// Completions with a list of prompts: the sum is paid, the longest one must fit.
TEST(RequestSize, SeveralPromptsArePaidTogetherAndFitOneByOne) {
  FrontDesk desk(std::string(kTwoTeams) + std::string(kWholeEngine), small_engine(),
                 {key_of("anna", "red")});
  TokenFacts facts = FrontDesk::tokens({.prompt = 700, .max_tokens = 12, .choices = 2});
  facts.longest_prompt_tokens = 500;
  const auto queued = desk.admission.admit(desk.now, RequestId{1}, desk.resolve("anna"), facts);
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->kv_blocks, 2 * 32);
  facts.longest_prompt_tokens = 501;
  const auto refused = desk.admission.admit(desk.now, RequestId{2}, desk.resolve("anna"), facts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::ContextLengthExceeded);
}

// A client may ask for as many tokens as 64 bits hold; the sum with its prompt must not wrap.
TEST(RequestSize, TheLargestMaxTokensIsRefusedWithAPositiveNumber) {
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
  for (const std::int64_t most : {INT64_MAX, INT64_MAX - 10, INT64_MAX - 11}) {
    const auto refused = desk.admit(1, "anna", {.prompt = 10, .max_tokens = most});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, RefusalCode::ContextLengthExceeded);
    EXPECT_GE(refused.error().asked, INT64_MAX - 1);
  }
}

TEST(RequestSize, DefaultIsTheSmallestAndTheContextTheLast) {
  FrontDesk desk(kTwoTeams, small_engine(), {key_of("anna", "red")});
  EXPECT_EQ(desk.admit(1, "anna", {.prompt = 500, .max_tokens = std::nullopt})->max_tokens, 12);
  TokenFacts facts = FrontDesk::tokens({.prompt = 10, .max_tokens = std::nullopt});
  facts.route_default_max_tokens = 16;
  const auto queued =
      desk.admission.admit(desk.now, RequestId{2}, desk.resolve("anna"), facts);
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->max_tokens, 16);
}

}  // namespace
}  // namespace turnstile::policy
