#include <algorithm>
#include <array>
#include <utility>

#include "policy/policy_tables.h"
#include "policy/policy_values.h"

namespace turnstile::policy {
namespace {

constexpr std::array<std::string_view, 7> kClassKeys = {
    "rank",           "queue_ttl",         "queue_requests",    "prefill_timeout",
    "decode_timeout", "max_output_tokens", "default_max_tokens"};
constexpr std::array<std::string_view, 11> kLaterClassKeys = {
    "watermark",   "floor",           "ttft",  "tpot",    "queue_tokens", "can_preempt",
    "preemptible", "length_quantile", "order", "inherit", "allow_late"};
constexpr std::array<std::string_view, 3> kPrefillKeys = {"base", "per_1k_uncached", "slack"};
constexpr std::array<std::string_view, 2> kDecodeKeys = {"stall", "total"};

constexpr std::int64_t kMaxRank = 999;
constexpr std::int64_t kMaxSlackMilli = 100'000;

void assign(Duration& target, const std::optional<Duration>& value) {
  if (value) target = *value;
}

void read_prefill_timeout(PolicyNotes& notes, const DocumentValue& table, std::string_view path,
                          Timeouts& timeouts) {
  if (!is_table(table, path, notes)) return;
  for (const auto& member : table.members) {
    const std::string name = dotted(path, member.name);
    if (member.name == "base") {
      assign(timeouts.prefill_base, read_duration(member.value, name, notes));
    } else if (member.name == "per_1k_uncached") {
      assign(timeouts.prefill_per_1k_uncached, read_duration(member.value, name, notes));
    } else if (member.name == "slack") {
      const auto slack = read_fraction(member.value, name, 1000, 1, kMaxSlackMilli, notes);
      if (slack) timeouts.prefill_slack_milli = *slack;
    } else {
      notes.unread_key(member, path, kPrefillKeys, {});
    }
  }
}

void read_decode_timeout(PolicyNotes& notes, const DocumentValue& table, std::string_view path,
                         Timeouts& timeouts) {
  if (!is_table(table, path, notes)) return;
  for (const auto& member : table.members) {
    const std::string name = dotted(path, member.name);
    if (member.name == "stall") {
      assign(timeouts.stall, read_duration(member.value, name, notes));
    } else if (member.name == "total") {
      assign(timeouts.total, read_duration(member.value, name, notes));
    } else {
      notes.unread_key(member, path, kDecodeKeys, {});
    }
  }
}

void read_class(PolicyNotes& notes, const DocumentValue& table, std::string_view path,
                ClassRules& rules) {
  for (const auto& member : table.members) {
    const std::string name = dotted(path, member.name);
    const DocumentValue& value = member.value;
    if (member.name == "rank") {
      if (const auto rank = read_count(value, name, 0, kMaxRank, notes)) rules.rank = *rank;
    } else if (member.name == "queue_ttl") {
      assign(rules.timeouts.queue_ttl, read_duration(value, name, notes));
    } else if (member.name == "queue_requests") {
      rules.queue_requests = read_count(value, name, 0, kMaxCount, notes);
    } else if (member.name == "prefill_timeout") {
      read_prefill_timeout(notes, value, name, rules.timeouts);
    } else if (member.name == "decode_timeout") {
      read_decode_timeout(notes, value, name, rules.timeouts);
    } else if (member.name == "max_output_tokens") {
      rules.max_output_tokens = read_count(value, name, 1, kMaxCount, notes);
    } else if (member.name == "default_max_tokens") {
      rules.default_max_tokens = read_count(value, name, 1, kMaxCount, notes);
    } else {
      notes.unread_key(member, path, kClassKeys, kLaterClassKeys);
    }
  }
}

// The rank of a class that shares one with an earlier class is an error at the later of the two.
void check_ranks(PolicyDraft& draft, const std::map<std::string, Position>& rank_positions) {
  const auto& classes = draft.set.classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (classes[i].rank != classes[j].rank) continue;
      const auto first = rank_positions.find(classes[j].name);
      const auto second = rank_positions.find(classes[i].name);
      const bool at_second = second != rank_positions.end() &&
                             (first == rank_positions.end() || first->second < second->second);
      const ClassRules& named = at_second ? classes[i] : classes[j];
      const ClassRules& other = at_second ? classes[j] : classes[i];
      std::string message = "classes." + named.name;
      message += ".rank " + std::to_string(named.rank);
      message += " is also the rank of classes." + other.name;
      const auto other_at = rank_positions.find(other.name);
      if (other_at != rank_positions.end()) {
        message += " (line " + std::to_string(other_at->second.line) + ")";
      }
      message += "; ranks must be unique";
      draft.notes.error((at_second ? second : first)->second, std::move(message));
    }
  }
}

}  // namespace

bool is_good_name(std::string_view name, std::string_view marks, std::size_t longest) {
  if (name.empty() || name.size() > longest) return false;
  return std::ranges::all_of(name, [marks](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

std::optional<ClassIndex> read_class_name(PolicyDraft& draft, const DocumentValue& value,
                                          std::string_view path) {
  const auto name = read_text(value, path, draft.notes);
  if (!name) return std::nullopt;
  const auto index = draft.set.find_class(*name);
  if (index) return index;
  std::vector<std::string_view> names;
  for (const ClassRules& rules : draft.set.classes) names.push_back(rules.name);
  std::string message(path);
  message += " names a class that does not exist";
  if (const auto meant = nearest_name(*name, names); !meant.empty()) {
    message += "; did you mean \"";
    message += meant;
    message += "\"?";
  }
  draft.notes.error(value.at, std::move(message));
  return std::nullopt;
}

void read_classes(PolicyDraft& draft, const DocumentValue& table) {
  PolicyNotes& notes = draft.notes;
  auto& classes = draft.set.classes;
  std::map<std::string, Position> rank_positions;
  for (const auto& member : table.members) {
    const std::string path = dotted("classes", member.name);
    if (!is_table(member.value, path, notes)) continue;
    if (!is_good_name(member.name, "_-", 32)) {
      notes.error(member.at, "a class name has 1 to 32 letters, digits, '-' and '_'");
      continue;
    }
    const auto* rank = member.value.find("rank");
    auto it = std::ranges::find(classes, member.name, &ClassRules::name);
    if (it == classes.end()) {
      if (classes.size() == kMaxClasses) {
        notes.error(member.at,
                    "there can be at most " + std::to_string(kMaxClasses) + " classes");
        continue;
      }
      if (rank == nullptr) {
        notes.error(member.at, path + " is not a built-in class and needs a rank");
        continue;
      }
      // A class of the admin's own starts with the times of the class for ordinary work.
      ClassRules rules = *std::ranges::find(classes, "standard", &ClassRules::name);
      rules.queue_requests.reset();
      rules.max_output_tokens.reset();
      rules.default_max_tokens.reset();
      rules.name = member.name;
      classes.push_back(std::move(rules));
      it = classes.end() - 1;
    }
    if (rank != nullptr) rank_positions[member.name] = rank->value.at;
    read_class(notes, member.value, path, *it);
  }
  check_ranks(draft, rank_positions);
  std::ranges::stable_sort(classes, {}, &ClassRules::rank);
  draft.set.fallback_class = *draft.set.find_class("interactive");
}

}  // namespace turnstile::policy
