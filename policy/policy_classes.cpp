#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "policy/policy_tables.h"
#include "policy/policy_values.h"
#include "policy/quantity.h"

namespace turnstile::policy {
namespace {

constexpr std::array<std::string_view, 18> kClassKeys = {
    "can_preempt",    "preemptible",
    "watermark",      "floor",             "length_quantile",
    "rank",           "inherit",           "ttft",            "allow_late",
    "queue_ttl",      "queue_requests",    "queue_tokens",    "order",
    "prefill_timeout", "decode_timeout",   "max_output_tokens", "default_max_tokens",
    "tpot"};
constexpr std::array<std::string_view, 3> kOrders = {"fifo", "edf", "lifo-when-standing"};
constexpr std::array<std::string_view, 3> kPrefillKeys = {"base", "per_1k_uncached", "slack"};
constexpr std::array<std::string_view, 2> kDecodeKeys = {"stall", "total"};

constexpr std::int64_t kMaxRank = 999;
constexpr std::int64_t kMaxSlackMilli = 100'000;

constexpr std::int64_t kPpm = 1'000'000;
constexpr std::int64_t kMostFloors = kPpm / 2;  // so that strict classes still mean something

// Where the other of two that conflict stands when the file does not say it.
constexpr std::string_view kBuiltIn = " (built in)";

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

std::optional<LeafOrder> read_order(PolicyNotes& notes, const DocumentValue& value,
                                    std::string_view path) {
  const auto text = read_text(value, path, notes);
  if (!text) return std::nullopt;
  for (const LeafOrder order : {LeafOrder::Fifo, LeafOrder::Edf, LeafOrder::LifoWhenStanding}) {
    if (*text == to_string(order)) return order;
  }
  std::string message(path);
  message += " must be \"fifo\", \"edf\" or \"lifo-when-standing\"";
  message += did_you_mean(*text, kOrders);
  notes.error(value.at, std::move(message));
  return std::nullopt;
}

// As it may have been written.
std::string text_of(Duration duration) {
  return duration_text(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
}

void read_class(PolicyNotes& notes, const DocumentValue& table, std::string_view path,
                ClassRules& rules) {
  // Of waiting time and first token target the one that is not written follows the other.
  const bool both_times = table.find("queue_ttl") != nullptr && table.find("ttft") != nullptr;
  for (const auto& member : table.members) {
    const std::string name = dotted(path, member.name);
    const DocumentValue& value = member.value;
    if (member.name == "rank") {
      if (const auto rank = read_count(value, name, 0, kMaxRank, notes)) rules.rank = *rank;
    } else if (member.name == "watermark") {
      assign(rules.watermark_ppm, read_fraction(value, name, kPpm, 1, kPpm, notes));
    } else if (member.name == "floor") {
      assign(rules.floor_ppm, read_fraction(value, name, kPpm, 0, kMostFloors, notes));
    } else if (member.name == "length_quantile") {
      assign(rules.length_quantile_ppm, read_fraction(value, name, kPpm, kPpm / 2, kPpm, notes));
    } else if (member.name == "can_preempt") {
      assign(rules.can_preempt, read_boolean(value, name, notes));
    } else if (member.name == "preemptible") {
      assign(rules.preemptible, read_boolean(value, name, notes));
    } else if (member.name == "inherit") {
      continue;  // read_with_parents() has followed it
    } else if (member.name == "queue_ttl") {
      assign(rules.timeouts.queue_ttl, read_duration(value, name, notes));
      if (!both_times) rules.ttft = rules.timeouts.queue_ttl;
    } else if (member.name == "ttft") {
      assign(rules.ttft, read_duration(value, name, notes));
      if (!both_times) rules.timeouts.queue_ttl = rules.ttft;
    } else if (member.name == "tpot") {
      assign(rules.timeouts.token_gap, read_duration(value, name, notes));
    } else if (member.name == "allow_late") {
      if (const auto allow = read_boolean(value, name, notes)) rules.allow_late = *allow;
    } else if (member.name == "order") {
      if (const auto order = read_order(notes, value, name)) rules.order = *order;
    } else if (member.name == "queue_tokens") {
      rules.queue_tokens = read_count(value, name, 0, kMaxCount, notes);
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
      notes.unread_key(member, path, kClassKeys, {}, home_of_node_key(member.name));
    }
  }
}

// The rank of a class that shares one with an earlier class is an error at the later of the two. A
// rank that cannot be read is none.
void check_ranks(PolicyDraft& draft, const std::map<std::string, Position>& rank_positions) {
  const auto& classes = draft.set.classes;
  const auto is_unread = [&](const ClassRules& rules) {
    const auto at = rank_positions.find(rules.name);
    return at != rank_positions.end() && draft.notes.has_error_at(at->second);
  };
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (classes[i].rank != classes[j].rank) continue;
      if (is_unread(classes[i]) || is_unread(classes[j])) continue;
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
      message += other_at != rank_positions.end()
                     ? " (line " + std::to_string(other_at->second.line) + ")"
                     : std::string(kBuiltIn);
      message += "; ranks must be unique";
      draft.notes.error((at_second ? second : first)->second, std::move(message));
    }
  }
}

// A written class on its way through inheritance.
struct ClassTable {
  enum class State : std::uint8_t { Unread, Reading, Read };
  const DocumentValue* table = nullptr;
  State state = State::Unread;
};

// A class takes everything but name and rank from its parent, as the file leaves the parent.
constexpr int kMostInherited = 4;

void read_with_parents(PolicyDraft& draft, std::map<std::string, ClassTable>& tables,
                       const std::string& name, int depth) {
  ClassTable& own = tables.at(name);
  if (own.state != ClassTable::State::Unread) return;
  own.state = ClassTable::State::Reading;
  const std::string path = dotted("classes", name);
  const ClassIndex index = *draft.set.find_class(name);
  if (const auto* inherit = own.table->find("inherit")) {
    const std::string inherit_path = dotted(path, "inherit");
    const auto parent = read_class_name(draft, inherit->value, inherit_path);
    const auto parent_table = parent ? tables.find(draft.set.classes[*parent].name) : tables.end();
    const bool in_file = parent_table != tables.end();
    if (in_file && parent_table->second.state == ClassTable::State::Reading) {
      draft.notes.error(inherit->value.at, inherit_path + " closes a circle through line " +
                                               std::to_string(parent_table->second.table->at.line));
    } else if (depth == kMostInherited) {
      draft.notes.error(inherit->value.at, inherit_path + " is the fifth in a row; at most " +
                                               std::to_string(kMostInherited) + " are followed");
    } else if (parent) {
      if (in_file) read_with_parents(draft, tables, parent_table->first, depth + 1);
      ClassRules rules = draft.set.classes[*parent];
      rules.name = name;
      rules.rank = draft.set.classes[index].rank;
      draft.set.classes[index] = std::move(rules);
    }
  }
  read_class(draft.notes, *own.table, path, draft.set.classes[index]);
  own.state = ClassTable::State::Read;
}

// Where a class says something itself; else where its table is.
Position position_of(const ClassTable& written, std::string_view key) {
  const auto* member = written.table->find(key);
  return member != nullptr ? member->value.at : written.table->at;
}

bool writes(const std::map<std::string, ClassTable>& tables, const ClassRules& rules,
            std::string_view key) {
  const auto written = tables.find(rules.name);
  return written != tables.end() && written->second.table->find(key) != nullptr;
}

// In the place of a value that cannot be read stands what would hold if it were not written; with
// that nothing is to be compared.
bool all_read(const PolicyNotes& notes, const std::map<std::string, ClassTable>& tables,
              std::string_view key) {
  return std::ranges::none_of(tables, [&](const auto& item) {
    const auto* member = item.second.table->find(key);
    return member != nullptr && notes.has_error_at(member->value.at);
  });
}

// A watermark that is not written stays below the one of the class above.
void lower_watermarks(PolicyDraft& draft, const std::map<std::string, ClassTable>& tables) {
  auto& classes = draft.set.classes;
  for (std::size_t i = 1; i < classes.size(); ++i) {
    if (writes(tables, classes[i], "watermark")) continue;
    classes[i].watermark_ppm = std::min(classes[i].watermark_ppm, classes[i - 1].watermark_ppm);
  }
}

// If a lower class could fill what a higher one may not, the higher one would wait for it.
void check_watermarks(PolicyDraft& draft, const std::map<std::string, ClassTable>& tables) {
  const auto& classes = draft.set.classes;
  for (std::size_t i = 1; i < classes.size(); ++i) {
    const ClassRules& lower = classes[i];
    if (lower.watermark_ppm <= classes[i - 1].watermark_ppm) continue;
    // Those between may have been lowered to the one that is meant.
    std::size_t above = i - 1;
    while (above > 0 && !writes(tables, classes[above], "watermark") &&
           classes[above - 1].watermark_ppm == classes[above].watermark_ppm) {
      above -= 1;
    }
    const ClassRules& upper = classes[above];
    const auto of_lower = tables.find(lower.name);
    const auto of_upper = tables.find(upper.name);
    assert(of_lower != tables.end() && "only a watermark that is written can rise");
    std::string message = "classes." + lower.name + ".watermark ";
    message += as_decimal(lower.watermark_ppm, kPpm) + " exceeds classes." + upper.name;
    message += ".watermark " + as_decimal(upper.watermark_ppm, kPpm);
    message += of_upper != tables.end()
                   ? " (line " +
                         std::to_string(position_of(of_upper->second, "watermark").line) + ")"
                   : std::string(kBuiltIn);
    message += "; watermarks must not rise with rank";
    draft.notes.error(position_of(of_lower->second, "watermark"), std::move(message));
  }
}

void check_floors(PolicyDraft& draft, const std::map<std::string, ClassTable>& tables) {
  std::int64_t sum = 0;
  std::int64_t built_in = 0;
  std::vector<Position> places;
  for (const ClassRules& rules : draft.set.classes) {
    sum += rules.floor_ppm;
    if (writes(tables, rules, "floor")) {
      places.push_back(position_of(tables.at(rules.name), "floor"));
    } else {
      built_in += rules.floor_ppm;
    }
  }
  if (sum <= kMostFloors) return;
  Position last;
  const bool is_written = !places.empty();
  if (is_written) {
    std::ranges::sort(places);
    last = places.back();
    places.pop_back();
  } else {
    // A class of the admin's own begins with the floor of another; the last was one too many.
    for (const auto& [name, written] : tables) last = std::max(last, written.table->at);
  }
  std::string message = "the floors of all classes add up to " + as_decimal(sum, kPpm);
  for (std::size_t i = 0; i < places.size(); ++i) {
    message += i > 0 ? ", " : places.size() > 1 ? " (with lines " : " (with line ";
    message += std::to_string(places[i].line);
  }
  if (!places.empty()) message += ')';
  if (built_in > 0) message += ", " + as_decimal(built_in, kPpm) + " of it not written";
  message += "; at most " + as_decimal(kMostFloors, kPpm) + " can be promised";
  if (!is_written) message += "; write smaller ones";
  draft.notes.error(last, std::move(message));
}

// A request that may wait longer than its first token is worth is served too late.
void check_class_times(PolicyDraft& draft, const std::map<std::string, ClassTable>& tables) {
  for (const auto& [name, written] : tables) {
    const ClassRules& rules = draft.set.classes[*draft.set.find_class(name)];
    if (rules.allow_late || rules.timeouts.queue_ttl <= rules.ttft) continue;
    const auto* ttl = written.table->find("queue_ttl");
    const auto* ttft = written.table->find("ttft");
    const Position at = ttl != nullptr    ? ttl->value.at
                        : ttft != nullptr ? ttft->value.at
                                          : written.table->at;
    std::string message = "classes." + name + ".queue_ttl " + text_of(rules.timeouts.queue_ttl);
    message += " exceeds its ttft " + text_of(rules.ttft);
    if (ttl != nullptr && ttft != nullptr) {
      message += " (line " + std::to_string(ttft->value.at.line) + ")";
    }
    message += "; shorten it or write allow_late = true";
    draft.notes.error(at, std::move(message));
  }
}

}  // namespace

std::string_view home_of_class_key(std::string_view name) {
  return std::ranges::find(kClassKeys, name) != kClassKeys.end() ? "[classes.NAME]"
                                                                 : std::string_view{};
}

bool is_good_name(std::string_view name, std::string_view marks, std::size_t longest) {
  if (name.empty() || name.size() > longest) return false;
  return std::ranges::all_of(name, [marks](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

std::optional<ClassIndex> class_named(PolicyDraft& draft, std::string_view name, Position at,
                                      std::string_view path) {
  const auto index = draft.set.find_class(name);
  if (index) return index;
  std::vector<std::string_view> names;
  for (const ClassRules& rules : draft.set.classes) names.push_back(rules.name);
  std::string message(path);
  message += " names a class that does not exist";
  message += did_you_mean(name, names);
  draft.notes.error(at, std::move(message));
  return std::nullopt;
}

std::optional<ClassIndex> read_class_name(PolicyDraft& draft, const DocumentValue& value,
                                          std::string_view path) {
  const auto name = read_text(value, path, draft.notes);
  if (!name) return std::nullopt;
  return class_named(draft, *name, value.at, path);
}

void read_classes(PolicyDraft& draft, const DocumentValue& table) {
  PolicyNotes& notes = draft.notes;
  auto& classes = draft.set.classes;
  const PolicySet built_in = default_policy_set();
  std::map<std::string, Position> rank_positions;
  std::map<std::string, ClassTable> tables;
  for (const auto& member : table.members) {
    const std::string path = dotted("classes", member.name);
    if (!is_table(member.value, path, notes)) continue;
    if (!is_good_name(member.name, "_-", 32)) {
      notes.error(member.at, "a class name has 1 to 32 letters, digits, '-' and '_'");
      continue;
    }
    const auto* rank = member.value.find("rank");
    if (!draft.set.find_class(member.name)) {
      if (classes.size() == kMaxClasses) {
        notes.error(member.at,
                    "there can be at most " + std::to_string(kMaxClasses) + " classes");
        continue;
      }
      if (rank == nullptr) {
        std::vector<std::string_view> names;
        for (const ClassRules& rules : classes) names.push_back(rules.name);
        notes.error(member.at, path + " is not a built-in class and needs a rank" +
                                   did_you_mean(member.name, names));
        continue;
      }
      // A class of the admin's own starts with the times of the class for ordinary work.
      ClassRules rules = built_in.classes[*built_in.find_class("standard")];
      rules.name = member.name;
      classes.push_back(std::move(rules));
    }
    if (rank != nullptr) rank_positions[member.name] = rank->value.at;
    tables[member.name] = {&member.value, ClassTable::State::Unread};
  }
  for (const auto& member : table.members) {
    if (tables.contains(member.name)) read_with_parents(draft, tables, member.name, 0);
  }
  check_ranks(draft, rank_positions);
  std::ranges::stable_sort(classes, {}, &ClassRules::rank);
  lower_watermarks(draft, tables);
  if (all_read(notes, tables, "rank") && all_read(notes, tables, "watermark")) {
    check_watermarks(draft, tables);
  }
  if (all_read(notes, tables, "floor")) check_floors(draft, tables);
  if (all_read(notes, tables, "queue_ttl") && all_read(notes, tables, "ttft")) {
    check_class_times(draft, tables);
  }
  draft.set.fallback_class = *draft.set.find_class("interactive");
}

}  // namespace turnstile::policy
