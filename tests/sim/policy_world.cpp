#include "tests/sim/policy_world.h"

#include <array>
#include <utility>

namespace turnstile::policy::sim {
namespace {

using std::chrono::milliseconds;

std::optional<std::int64_t> maybe(Random& random, int percent, std::int64_t least,
                                  std::int64_t most) {
  if (!random.chance(percent)) return std::nullopt;
  return random.between(least, most);
}

// Zero is a limit of its own kind, so it is drawn, but seldom: it silences everything below.
std::int64_t seldom_zero(Random& random, std::int64_t value) {
  return random.chance(3) ? 0 : value;
}

NodeRules make_rules(Random& random, const PolicySet& policy) {
  NodeRules rules;
  rules.weight = random.between(1, 5);
  rules.cached_weight_milli = random.chance(50) ? 1000 : random.between(0, 1000);
  rules.bucket_fraction_ppm = random.chance(50) ? 250'000 : random.between(1'000, 1'000'000);
  rules.charge = random.chance(40)   ? Charge::Live
                 : random.chance(50) ? Charge::Max
                                     : Charge::Hard;
  if (random.chance(40)) rules.inflight = seldom_zero(random, random.between(1, 4));
  const auto last_class = static_cast<std::int64_t>(policy.classes.size()) - 1;
  for (std::int64_t c = 0; c <= last_class; ++c) {
    const auto class_index = static_cast<ClassIndex>(c);
    if (random.chance(10)) {
      rules.inflight_by_class.push_back({class_index, seldom_zero(random, random.between(1, 3))});
    }
    if (random.chance(15)) {
      rules.budget_floor_ppm.push_back({class_index, random.between(0, 600'000)});
    }
  }
  rules.queue_requests = maybe(random, 40, 0, 5);
  rules.queue_tokens = maybe(random, 20, 0, 500);
  if (random.chance(25)) rules.requests_per_minute = seldom_zero(random, random.between(60, 3000));
  if (random.chance(35)) {
    // Half of them so small that answers of "hard" run dry.
    rules.tokens_per_minute =
        seldom_zero(random, random.chance(50) ? random.between(500, 200'000)
                                              : random.between(300, 3'000));
  }
  if (random.chance(20)) rules.max_class = static_cast<ClassIndex>(random.between(0, last_class));
  if (random.chance(20)) {
    rules.default_class = static_cast<ClassIndex>(random.between(0, last_class));
  }
  rules.max_input_tokens = maybe(random, 15, 1, 200);
  rules.max_output_tokens = maybe(random, 15, 1, 100);
  rules.default_max_tokens = maybe(random, 30, 1, 100);
  rules.disabled = random.chance(2);
  return rules;
}

}  // namespace

KeyNode make_key(Random& random, const PolicySet& policy, std::int64_t index) {
  KeyNode key;
  key.id = "key" + std::to_string(index);
  const auto last_team = static_cast<std::int64_t>(policy.teams.size()) - 1;
  key.team = policy.teams[static_cast<std::size_t>(random.between(0, last_team))].name;
  key.weight = random.between(1, 4);
  if (random.chance(25)) key.inflight = seldom_zero(random, random.between(1, 3));
  key.queue_requests = maybe(random, 25, 0, 3);
  if (random.chance(15)) key.requests_per_minute = seldom_zero(random, random.between(60, 3000));
  if (random.chance(20)) key.tokens_per_minute = seldom_zero(random, random.between(500, 100'000));
  if (random.chance(15)) {
    const auto last_class = static_cast<std::int64_t>(policy.classes.size()) - 1;
    key.max_class =
        policy.classes[static_cast<std::size_t>(random.between(0, last_class))].name;
  }
  key.disabled = random.chance(3);
  return key;
}

std::string change_a_key(Random& random, World& world) {
  std::vector<KeyNode>& keys = world.keys;
  const std::int64_t dice = random.below(5);
  const auto any = [&] { return random.below(static_cast<std::int64_t>(keys.size())); };
  if (dice == 0 && !keys.empty()) {
    const auto at = keys.begin() + any();
    world.gone_keys.push_back(*at);
    keys.erase(at);
    return world.gone_keys.back().id;
  }
  if (dice == 1 && !world.gone_keys.empty()) {
    KeyNode back = make_key(random, *world.policy, 0);
    back.id = world.gone_keys.back().id;
    world.gone_keys.pop_back();
    keys.push_back(back);
    return {};
  }
  if (dice == 2 && keys.size() < 10) {
    keys.push_back(make_key(random, *world.policy, ++world.last_key));
    return {};
  }
  if (keys.empty()) return {};
  KeyNode& key = keys[static_cast<std::size_t>(any())];
  KeyNode changed = make_key(random, *world.policy, 0);
  changed.id = key.id;
  if (random.chance(80)) changed.team = key.team;
  key = changed;
  return key.id;
}

TokenFacts make_tokens(Random& random, const EngineFacts& engine) {
  TokenFacts tokens;
  tokens.prompt_tokens = random.below(engine.max_model_len);
  if (random.chance(70)) tokens.prompt_tokens /= 4;
  if (random.chance(75)) tokens.max_tokens = random.between(1, engine.max_model_len / 3);
  if (random.chance(10)) tokens.choices = random.between(2, 4);
  if (random.chance(30)) tokens.cached_prompt_tokens = random.below(tokens.prompt_tokens + 1);
  if (random.chance(10)) tokens.client_deadline = milliseconds(random.between(1, 2000));
  return tokens;
}

World make_world(Random& random) {
  World world;
  PolicySet policy = default_policy_set();
  policy.revision = "r1-51000000";
  policy.queue_requests_total = random.chance(30) ? random.between(0, 6) : random.between(6, 40);
  if (random.chance(40)) policy.locality_slack_units = random.between(1, 3000);
  std::int64_t watermark = 1'000'000;
  for (ClassRules& rules : policy.classes) {
    if (random.chance(60)) watermark -= random.between(0, 250'000);
    rules.watermark_ppm = watermark;
    rules.can_preempt = random.chance(40);
    rules.preemptible = random.chance(60);
    rules.floor_ppm = random.chance(50) ? 0 : random.between(0, 125'000);
    rules.length_quantile_ppm = random.chance(40) ? 1'000'000 : random.between(500'000, 999'999);
    rules.timeouts.queue_ttl = milliseconds(random.between(5, 3000));
    rules.ttft = rules.timeouts.queue_ttl;
    rules.timeouts.token_gap =
        random.chance(85) ? Duration{std::chrono::hours(1)} : milliseconds(random.between(5, 60));
    rules.allow_late = random.chance(20);
    rules.order = random.chance(50)   ? LeafOrder::Fifo
                  : random.chance(50) ? LeafOrder::Edf
                                      : LeafOrder::LifoWhenStanding;
    rules.queue_requests = maybe(random, 20, 0, 5);
    rules.queue_tokens = maybe(random, 15, 0, 300);
    rules.max_output_tokens = maybe(random, 15, 1, 100);
    rules.default_max_tokens = maybe(random, 30, 1, 60);
  }
  const std::int64_t departments = random.between(1, 3);
  for (std::int64_t i = 0; i < departments; ++i) {
    policy.departments.push_back({"dept" + std::to_string(i), make_rules(random, policy)});
  }
  const std::int64_t teams = random.between(1, 4);
  for (std::int64_t i = 0; i < teams; ++i) {
    policy.teams.push_back({"team" + std::to_string(i),
                            static_cast<std::size_t>(random.below(departments)),
                            make_rules(random, policy)});
  }
  policy.key_defaults.charge = random.chance(50) ? Charge::Live : Charge::Max;

  world.engine.block_tokens = random.chance(50) ? 16 : random.between(1, 16);
  world.engine.kv_blocks = random.between(4, 80);
  world.engine.sequence_slots = random.between(1, 6);
  world.engine.max_model_len = random.between(16, random.chance(50) ? 256 : 512);
  world.engine.model_name = "engine";

  const std::int64_t keys = random.between(1, 7);
  for (std::int64_t i = 0; i < keys; ++i) world.keys.push_back(make_key(random, policy, i));
  world.policy = std::make_shared<const PolicySet>(std::move(policy));
  return world;
}

}  // namespace turnstile::policy::sim
