#include "policy/principals.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace turnstile::policy {
namespace {

std::string joined(std::string_view first, std::string_view second) {
  std::string text(first);
  text += '/';
  text += second;
  return text;
}

std::optional<Bucket::Limit> bucket_limit(const std::optional<std::int64_t>& per_minute,
                                          std::int64_t fraction_ppm) {
  if (!per_minute) return std::nullopt;
  return Bucket::Limit{*per_minute, bucket_capacity(*per_minute, fraction_ppm)};
}

// The rules of a key: its own limits on top of what keys take from [defaults]. What the policy does
// not know is reported in `problems` and closes the key.
NodeRules compile(const KeyNode& node, const PolicySet& policy,
                  std::vector<Principals::Problem>& problems, bool& understood) {
  const auto problem = [&](std::string what) {
    understood = false;
    problems.push_back({node.id, std::move(what)});
  };
  NodeRules rules = policy.key_defaults;
  rules.weight = std::clamp<std::int64_t>(node.weight, 1, kMaxWeight);
  if (rules.weight != node.weight) problem("weight must be between 1 and 10000");
  const auto limit = [&](std::string_view name, const std::optional<std::int64_t>& value,
                         std::int64_t least, std::int64_t largest) -> std::optional<std::int64_t> {
    if (!value || (*value >= least && *value <= largest)) return value;
    problem(std::string(name) + " must be between " + std::to_string(least) + " and " +
            std::to_string(largest));
    return least;
  };
  rules.inflight = limit("inflight", node.inflight, 0, kMaxCount);
  rules.queue_requests = limit("queue_requests", node.queue_requests, 0, kMaxCount);
  rules.requests_per_minute =
      limit("requests_per_minute", node.requests_per_minute, 0, kMaxPerMinute);
  rules.tokens_per_minute = limit("tokens_per_minute", node.tokens_per_minute, 0, kMaxPerMinute);
  rules.max_input_tokens = limit("max_input_tokens", node.max_input_tokens, 1, kMaxCount);
  rules.max_output_tokens = limit("max_output_tokens", node.max_output_tokens, 1, kMaxCount);
  const auto class_named = [&](std::string_view name, const std::optional<std::string>& value)
      -> std::optional<ClassIndex> {
    if (!value) return std::nullopt;
    const auto index = policy.find_class(*value);
    if (!index) problem(std::string(name) + " names a class that the policy does not have");
    return index;
  };
  rules.max_class = class_named("max_class", node.max_class);
  rules.default_class = class_named("default_class", node.default_class);
  rules.models = node.models;
  if (node.models && !policy.models.empty()) {
    for (const std::string& alias : *node.models) {
      if (!policy.find_model(alias)) problem("models names a model that the policy does not have");
    }
  }
  rules.disabled = node.disabled;
  return rules;
}

}  // namespace

Principal::Principal(std::string_view kind, std::string_view node_name, const NodeRules& node_rules,
                     ShareTree::NodeIndex share_node, Instant now)
    : scope(joined(kind, node_name)),
      rules(node_rules),
      share(share_node),
      inflight(joined("inflight", scope), scope, rules.inflight),
      queue(joined("queue", scope), scope, rules.queue_requests),
      queue_tokens(joined("queue_tokens", scope), scope, rules.queue_tokens),
      requests(joined("requests_per_minute", scope), scope,
               bucket_limit(rules.requests_per_minute, rules.bucket_fraction_ppm), now),
      tokens(joined("tokens_per_minute", scope), scope,
             bucket_limit(rules.tokens_per_minute, rules.bucket_fraction_ppm), now) {}

const Meter* Principal::inflight_of(ClassIndex class_index) const {
  const auto it = inflight_by_class.find(class_index);
  return it == inflight_by_class.end() ? nullptr : &it->second;
}

Meter* Principal::inflight_of(ClassIndex class_index) {
  const auto it = inflight_by_class.find(class_index);
  return it == inflight_by_class.end() ? nullptr : &it->second;
}

bool Principal::may_run(ClassIndex class_index) const {
  const Meter* of_class = inflight_of(class_index);
  return inflight.fits(1) && (of_class == nullptr || of_class->fits(1));
}

const Meter* Principal::closed_for_good(ClassIndex class_index) const {
  if (inflight.capacity() == 0) return &inflight;
  const Meter* of_class = inflight_of(class_index);
  return of_class != nullptr && of_class->capacity() == 0 ? of_class : nullptr;
}

KeyState::KeyState(std::uint64_t key_handle, const KeyNode& key_node, const NodeRules& key_rules,
                   std::size_t team, ShareTree::NodeIndex share_node, Instant now)
    : Principal("key", key_node.id, key_rules, share_node, now),
      handle(key_handle),
      id(key_node.id),
      team_index(team) {}

LengthEstimate& KeyState::length(std::size_t model, ClassIndex class_index) {
  return lengths[{model, class_index}];
}

LengthEstimate KeyState::length_or_start(std::size_t model, ClassIndex class_index) const {
  const auto it = lengths.find({model, class_index});
  return it == lengths.end() ? LengthEstimate{} : it->second;
}

Principals::Principals(const PolicySet& policy, ShareTree& tree) : policy_(policy), tree_(tree) {
  // Buckets of the policy are full at start, whenever the first call comes.
  constexpr Instant kStart{};
  const auto add = [&](std::string_view kind, const std::string& name, const NodeRules& rules,
                       ShareTree::NodeIndex parent) {
    const ShareTree::NodeIndex share = tree_.add(parent, rules.weight);
    auto node = std::make_unique<Principal>(kind, name, rules, share, kStart);
    for (const ClassValue& limit : rules.inflight_by_class) {
      const std::string meter = joined(joined("inflight_by_class", node->scope),
                                       policy_.classes[limit.class_index].name);
      node->inflight_by_class.try_emplace(limit.class_index, meter, node->scope, limit.value);
    }
    for (ClassIndex c = 0; c < policy_.classes.size(); ++c) {
      tree_.set_gate(share, c, node->may_run(c));
    }
    return node;
  };
  for (const Department& department : policy_.departments) {
    departments_.push_back(add("dept", department.name, department.rules, ShareTree::kRoot));
  }
  for (const Team& team : policy_.teams) {
    teams_.push_back(add("team", team.name, team.rules, departments_[team.department]->share));
  }
}

std::vector<Principals::Problem> Principals::set_keys(Instant now, const std::vector<KeyNode>& keys,
                                                      std::vector<KeyState*>& closed) {
  std::vector<Problem> problems;
  std::map<std::pair<std::string_view, std::size_t>, KeyState*> known;
  for (const auto& [handle, key] : keys_) known[{key->id, key->team_index}] = key.get();

  std::set<std::string_view> seen;
  std::set<const KeyState*> listed;
  current_.clear();
  for (const KeyNode& node : keys) {
    if (!seen.insert(node.id).second) {
      problems.push_back({node.id, "the id is used twice; the first entry holds"});
      continue;
    }
    const Team* team = policy_.find_team(node.team);
    if (team == nullptr) {
      problems.push_back({node.id, "its team does not exist in the policy"});
      continue;
    }
    const auto team_index = static_cast<std::size_t>(team - policy_.teams.data());
    bool understood = true;
    const NodeRules rules = compile(node, policy_, problems, understood);
    KeyState* key = nullptr;
    if (const auto it = known.find({node.id, team_index}); it != known.end()) {
      key = it->second;
      apply(now, *key, node, rules);
    } else {
      const std::uint64_t handle = next_handle_++;
      const ShareTree::NodeIndex share = tree_.add(teams_[team_index]->share, rules.weight);
      auto state = std::make_unique<KeyState>(handle, node, rules, team_index, share, now);
      key = state.get();
      keys_.emplace(handle, std::move(state));
      by_handle_.emplace(handle, key);
    }
    key->usable = understood && !rules.disabled;
    key->retired = false;
    tree_.set_gate(key->share, key->inflight.fits(1));
    current_.emplace(node.id, key);
    listed.insert(key);
    if (!key->usable && key->live_requests > 0) closed.push_back(key);
  }

  std::vector<KeyState*> gone;
  for (const auto& [handle, key] : keys_) {
    if (!listed.contains(key.get())) gone.push_back(key.get());
  }
  for (KeyState* key : gone) {
    if (key->live_requests > 0) closed.push_back(key);
    retire_or_drop(*key);
  }
  return problems;
}

void Principals::apply(Instant now, KeyState& key, const KeyNode& node, const NodeRules& rules) {
  assert(key.id == node.id && "state survives by id");
  (void)node;
  key.rules = rules;
  key.inflight.set_capacity(rules.inflight);
  key.queue.set_capacity(rules.queue_requests);
  key.requests.set_limit(now, bucket_limit(rules.requests_per_minute, rules.bucket_fraction_ppm));
  key.tokens.set_limit(now, bucket_limit(rules.tokens_per_minute, rules.bucket_fraction_ppm));
  tree_.set_weight(key.share, rules.weight);
}

void Principals::retire_or_drop(KeyState& key) {
  key.usable = false;
  key.retired = true;
  if (key.live_requests > 0 || key.tickets > 0) return;
  tree_.remove(key.share);
  by_handle_.erase(key.handle);
  keys_.erase(key.handle);
}

const KeyState* Principals::find(std::string_view id) const {
  const auto it = current_.find(id);
  return it == current_.end() ? nullptr : it->second;
}

KeyState* Principals::by_handle(std::uint64_t handle) {
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

const KeyState* Principals::by_handle(std::uint64_t handle) const {
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

Path Principals::path(KeyState& key) {
  const std::size_t team = key.team_index;
  return {&key, teams_[team].get(), departments_[policy_.teams[team].department].get()};
}

ConstPath Principals::path(const KeyState& key) const {
  const std::size_t team = key.team_index;
  return {&key, teams_[team].get(), departments_[policy_.teams[team].department].get()};
}

void Principals::end_request(KeyState& key) {
  assert(key.live_requests > 0 && "a request ends once");
  key.live_requests -= 1;
  if (key.retired) retire_or_drop(key);
}

}  // namespace turnstile::policy
