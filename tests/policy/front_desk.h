// front_desk.h: an Admission with a policy from text, a manual clock and short calls, for tests.
//
// Fails the test at once when the policy text has errors or an invariant breaks after a call.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/admission.h"
#include "policy/policy_file.h"

namespace turnstile::policy {

inline std::shared_ptr<const PolicySet> policy_from(std::string_view text) {
  PolicyFileInput input;
  input.text = text;
  input.file_name = "test.toml";
  input.revision = "r1-00000000";
  PolicyFileResult result = read_policy(input);
  for (const PolicyFileNote& note : result.errors) ADD_FAILURE() << format_error(note);
  return result.policy != nullptr ? result.policy
                                  : std::make_shared<const PolicySet>(default_policy_set());
}

inline KeyNode key_of(std::string id, std::string team) {
  KeyNode key;
  key.id = std::move(id);
  key.team = std::move(team);
  return key;
}

inline std::vector<KeyNode> anna() { return {key_of("anna", "red")}; }

inline std::vector<KeyNode> red_and_blue() {
  return {key_of("anna", "red"), key_of("bob", "blue")};
}

// Room for four sequences, 1,024 positions of cache, 512 of context.
inline EngineFacts small_engine() {
  EngineFacts engine;
  engine.kv_blocks = 64;
  engine.block_tokens = 16;
  engine.sequence_slots = 4;
  engine.max_model_len = 512;
  engine.model_name = "engine";
  return engine;
}

// Two teams of one department without limits.
inline constexpr std::string_view kTwoTeams = R"(
schema = 1
[depts.main]
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
)";

// Every class may use the whole engine and reserves the worst case; goes after a policy.
inline constexpr std::string_view kWholeEngine = R"(
[classes.interactive]
watermark = 1
length_quantile = 1
[classes.standard]
watermark = 1
length_quantile = 1
[classes.batch]
watermark = 1
length_quantile = 1
)";

class FrontDesk {
 public:
  FrontDesk(std::string_view policy, EngineFacts engine, std::vector<KeyNode> keys)
      : admission(policy_from(policy), std::move(engine)) {
    EXPECT_TRUE(admission.set_keys(now, keys).empty());
  }

  struct Wish {
    std::int64_t prompt = 16;
    std::optional<std::int64_t> max_tokens = 16;
    std::optional<std::string_view> class_name = std::nullopt;
    std::int64_t choices = 1;
  };

  Resolved resolve(std::string_view key, std::optional<std::string_view> class_name = {}) {
    auto resolved = admission.resolve(now, {key, class_name, std::nullopt});
    EXPECT_TRUE(resolved.has_value());
    return resolved.value_or(Resolved{});
  }

  static TokenFacts tokens(const Wish& wish) {
    TokenFacts facts;
    facts.prompt_tokens = wish.prompt;
    facts.max_tokens = wish.max_tokens;
    facts.choices = wish.choices;
    return facts;
  }

  tl::expected<Queued, Refusal> admit(std::uint64_t id, std::string_view key, const Wish& wish) {
    auto queued = admission.admit(now, RequestId{id}, resolve(key, wish.class_name), tokens(wish));
    check();
    return queued;
  }
  tl::expected<Queued, Refusal> admit(std::uint64_t id, std::string_view key) {
    return admit(id, key, Wish{});
  }

  // Runs dispatch() and returns the ids that were started, in order. Late refusals go to `refused`.
  std::vector<std::uint64_t> dispatch() {
    std::vector<Outcome> out;
    admission.dispatch(now, out);
    check();
    std::vector<std::uint64_t> started;
    for (const Outcome& outcome : out) {
      if (const auto* dispatched = std::get_if<Dispatch>(&outcome)) {
        started.push_back(static_cast<std::uint64_t>(dispatched->id));
        last_dispatch = *dispatched;
      } else if (const auto* late = std::get_if<LateRefusal>(&outcome)) {
        refused[static_cast<std::uint64_t>(late->id)] = late->refusal;
      }
    }
    return started;
  }

  std::optional<Settlement> end(std::uint64_t id, EndKind kind, std::int64_t prompt_computed,
                                std::int64_t generated) {
    auto settlement = admission.on_ended(now, RequestId{id}, kind, {prompt_computed, generated});
    check();
    return settlement;
  }
  std::optional<Settlement> complete(std::uint64_t id) {
    return end(id, EndKind::Completed, 16, 16);
  }

  void advance(Duration duration) { now += duration; }

  std::int64_t committed(std::string_view meter) {
    for (const MeterView& view : admission.meters(now, Admission::Detail::WithKeys)) {
      if (view.name == meter) return view.committed;
    }
    ADD_FAILURE() << "no meter " << meter;
    return -1;
  }

  // All meters in one text, for comparing before and after.
  std::string meters() {
    std::string text;
    for (const MeterView& view : admission.meters(now, Admission::Detail::WithKeys)) {
      text += view.name + "=" + std::to_string(view.committed) + "/" +
              std::to_string(view.capacity) + " ";
    }
    return text;
  }

  void check() {
    const auto broken = admission.check_invariants(now);
    ASSERT_FALSE(broken.has_value()) << *broken;
  }

  Instant now{};
  Admission admission;
  std::map<std::uint64_t, Refusal> refused;
  Dispatch last_dispatch;
};

}  // namespace turnstile::policy
