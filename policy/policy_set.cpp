#include "policy/policy_set.h"

#include <algorithm>
#include <cassert>

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Shares {
  std::int64_t watermark_ppm;
  std::int64_t floor_ppm;
  std::int64_t length_quantile_ppm;
};

ClassRules built_in_class(std::string name, std::int64_t rank, Duration queue_ttl,
                          Duration token_gap, Shares shares) {
  ClassRules rules;
  rules.name = std::move(name);
  rules.rank = rank;
  rules.watermark_ppm = shares.watermark_ppm;
  rules.floor_ppm = shares.floor_ppm;
  rules.length_quantile_ppm = shares.length_quantile_ppm;
  rules.timeouts.queue_ttl = queue_ttl;
  rules.ttft = queue_ttl;
  rules.timeouts.prefill_base = seconds(60);
  rules.timeouts.prefill_per_1k_uncached = seconds(30);
  rules.timeouts.prefill_slack_milli = 1000;
  rules.timeouts.stall = seconds(30);
  rules.timeouts.total = minutes(10);
  rules.timeouts.token_gap = token_gap;
  return rules;
}

}  // namespace

std::string_view to_string(Charge charge) {
  switch (charge) {
    case Charge::Max: return "max";
    case Charge::Live: return "live";
    case Charge::Hard: return "hard";
  }
  assert(false && "every way to charge has a name");
  return {};
}

std::string_view to_string(LeafOrder order) {
  switch (order) {
    case LeafOrder::Fifo: return "fifo";
    case LeafOrder::Edf: return "edf";
    case LeafOrder::LifoWhenStanding: return "lifo-when-standing";
  }
  assert(false && "every order has a name");
  return {};
}

std::optional<ClassIndex> PolicySet::find_class(std::string_view name) const {
  for (ClassIndex index = 0; index < classes.size(); ++index) {
    if (classes[index].name == name) return index;
  }
  return std::nullopt;
}

const Team* PolicySet::find_team(std::string_view name) const {
  const auto it = std::ranges::find(teams, name, &Team::name);
  return it == teams.end() ? nullptr : &*it;
}

const Model* PolicySet::find_model(std::string_view alias) const {
  const auto it = std::ranges::find(models, alias, &Model::alias);
  return it == models.end() ? nullptr : &*it;
}

PolicySet default_policy_set() {
  PolicySet set;
  set.classes.push_back(built_in_class("demo", 0, seconds(10), milliseconds(100),
                                       {1'000'000, 0, 1'000'000}));
  set.classes.push_back(built_in_class("interactive", 1, seconds(30), milliseconds(150),
                                       {950'000, 50'000, 950'000}));
  set.classes.push_back(built_in_class("standard", 2, seconds(60), milliseconds(300),
                                       {900'000, 50'000, 900'000}));
  set.classes.push_back(built_in_class("batch", 3, minutes(10), seconds(1),
                                       {800'000, 100'000, 900'000}));
  set.classes[0].can_preempt = true;
  set.classes[2].preemptible = true;
  set.classes[3].preemptible = true;
  set.fallback_class = 1;
  return set;
}

std::int64_t budget_floor_ppm(const NodeRules& rules, ClassIndex class_index) {
  std::int64_t largest = 0;
  for (const ClassValue& floor : rules.budget_floor_ppm) {
    if (floor.class_index < class_index) largest = std::max(largest, floor.value);
  }
  return largest;
}

std::int64_t bucket_capacity(std::int64_t per_minute, std::int64_t fraction_ppm) {
  assert(per_minute >= 0 && per_minute <= kMaxPerMinute && "the reader bounds limits per minute");
  assert(fraction_ppm >= 0 && fraction_ppm <= 1'000'000 && "a bucket holds at most one minute");
  const std::int64_t whole = per_minute / 1'000'000 * fraction_ppm;
  const std::int64_t rest = per_minute % 1'000'000 * fraction_ppm / 1'000'000;
  return std::max<std::int64_t>(1, whole + rest);
}

std::string revision_text(std::int64_t number, std::span<const std::uint8_t> content_hash) {
  assert(content_hash.size() >= 4 && "a revision shows four bytes of the content hash");
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "r";
  text += std::to_string(number);
  text += '-';
  for (const std::uint8_t byte : content_hash.first(4)) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace turnstile::policy
