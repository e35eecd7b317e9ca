#include <algorithm>
#include <array>
#include <utility>

#include "policy/policy_tables.h"
#include "policy/policy_values.h"

namespace turnstile::policy {
namespace {

constexpr std::array<std::string_view, 18> kNodeKeys = {
    "weight",          "cached_weight",       "inflight",         "inflight_by_class",
    "queue_requests",  "queue_tokens",        "bucket_fraction",  "requests_per_minute",
    "tokens_per_minute", "charge",            "budget_floor",     "max_class",
    "default_class",   "models",              "max_input_tokens", "max_output_tokens",
    "default_max_tokens", "disabled"};
constexpr std::array<std::string_view, 1> kTeamKeys = {"dept"};
constexpr std::array<std::string_view, 2> kDefaultsKeys = {"queue_requests_total",
                                                           "locality_slack"};
constexpr std::array<std::string_view, 4> kLaterNodeKeys = {"tokens_per_day", "tokens_per_week",
                                                            "tokens_per_month", "expires"};
constexpr std::array<std::string_view, 4> kModelKeys = {"serves", "default_class", "max_class",
                                                        "max_input_tokens"};
constexpr std::array<std::string_view, 2> kLaterModelKeys = {"fallback", "fallback_on"};

constexpr std::array<std::string_view, 3> kCharges = {"max", "live", "hard"};

// A team may have this many waiting requests unless the file says otherwise: without a bound, one
// team could fill the whole queue.
constexpr std::int64_t kTeamQueueRequests = 64;

std::optional<Charge> read_charge(PolicyNotes& notes, const DocumentValue& value,
                                  std::string_view path) {
  const auto text = read_text(value, path, notes);
  if (!text) return std::nullopt;
  if (*text == "max") return Charge::Max;
  if (*text == "live") return Charge::Live;
  if (*text == "hard") return Charge::Hard;
  notes.error(value.at, std::string(path) + " must be \"max\", \"live\" or \"hard\"" +
                            did_you_mean(*text, kCharges));
  return std::nullopt;
}

// The aliases a node may use. Whether they exist is known when there is a [models] table, or when
// the names of the engines are.
std::optional<std::vector<std::string>> read_models_list(PolicyDraft& draft,
                                                         const DocumentValue& value,
                                                         std::string_view path) {
  const auto aliases = read_text_list(value, path, draft.notes);
  if (!aliases) return std::nullopt;
  std::vector<std::string_view> known;
  for (const Model& model : draft.set.models) known.push_back(model.alias);
  if (known.empty() && draft.engine_models) {
    known.assign(draft.engine_models->begin(), draft.engine_models->end());
  }
  for (std::size_t i = 0; i < aliases->size() && !known.empty(); ++i) {
    if (std::ranges::find(known, (*aliases)[i]) != known.end()) continue;
    std::string message(path);
    message += " names a model that does not exist";
    message += did_you_mean((*aliases)[i], known);
    draft.notes.error(value.elements[i].at, std::move(message));
  }
  return aliases;
}

// A table of class names and values: { batch = 4 }. It replaces what [defaults] said as a whole.
template <typename Read>
void read_class_values(PolicyDraft& draft, const DocumentValue& table, std::string_view path,
                       std::vector<ClassValue>& values, Read read) {
  if (!is_table(table, path, draft.notes)) return;
  values.clear();
  for (const auto& member : table.members) {
    const std::string name = dotted(path, member.name);
    const auto class_index = class_named(draft, member.name, member.at, name);
    const auto value = read(member.value, name);
    if (class_index && value) values.push_back({*class_index, *value});
  }
}

// Reads one node key; false when the key is none.
bool read_node_key(PolicyDraft& draft, const DocumentValue::Member& member, std::string_view table,
                   NodeRules& rules) {
  PolicyNotes& notes = draft.notes;
  const std::string path = dotted(table, member.name);
  const DocumentValue& value = member.value;
  if (member.name == "weight") {
    assign(rules.weight, read_count(value, path, 1, kMaxWeight, notes));
  } else if (member.name == "cached_weight") {
    assign(rules.cached_weight_milli, read_fraction(value, path, 1000, 0, 1000, notes));
  } else if (member.name == "inflight") {
    rules.inflight = read_count(value, path, 0, kMaxCount, notes);
  } else if (member.name == "inflight_by_class") {
    read_class_values(draft, value, path, rules.inflight_by_class,
                      [&](const DocumentValue& limit, std::string_view name) {
                        return read_count(limit, name, 0, kMaxCount, notes);
                      });
  } else if (member.name == "budget_floor") {
    read_class_values(draft, value, path, rules.budget_floor_ppm,
                      [&](const DocumentValue& share, std::string_view name) {
                        return read_fraction(share, name, 1'000'000, 0, 1'000'000, notes);
                      });
  } else if (member.name == "queue_tokens") {
    rules.queue_tokens = read_count(value, path, 0, kMaxCount, notes);
  } else if (member.name == "queue_requests") {
    rules.queue_requests = read_count(value, path, 0, kMaxCount, notes);
  } else if (member.name == "requests_per_minute") {
    rules.requests_per_minute = read_count(value, path, 0, kMaxPerMinute, notes);
  } else if (member.name == "tokens_per_minute") {
    rules.tokens_per_minute = read_count(value, path, 0, kMaxPerMinute, notes);
  } else if (member.name == "bucket_fraction") {
    assign(rules.bucket_fraction_ppm,
           read_fraction(value, path, 1'000'000, 1'000, 1'000'000, notes));
  } else if (member.name == "charge") {
    assign(rules.charge, read_charge(notes, value, path));
  } else if (member.name == "max_class") {
    rules.max_class = read_class_name(draft, value, path);
  } else if (member.name == "default_class") {
    rules.default_class = read_class_name(draft, value, path);
  } else if (member.name == "models") {
    rules.models = read_models_list(draft, value, path);
  } else if (member.name == "max_input_tokens") {
    rules.max_input_tokens = read_count(value, path, 1, kMaxCount, notes);
  } else if (member.name == "max_output_tokens") {
    rules.max_output_tokens = read_count(value, path, 1, kMaxCount, notes);
  } else if (member.name == "default_max_tokens") {
    rules.default_max_tokens = read_count(value, path, 1, kMaxCount, notes);
  } else if (member.name == "disabled") {
    assign(rules.disabled, read_boolean(value, path, notes));
  } else {
    return false;
  }
  return true;
}

template <std::size_t N, std::size_t M>
std::vector<std::string_view> both(const std::array<std::string_view, N>& first,
                                   const std::array<std::string_view, M>& second) {
  std::vector<std::string_view> names(first.begin(), first.end());
  names.insert(names.end(), second.begin(), second.end());
  return names;
}

// A budget that a request allowed by the other limits could never be paid from is legal, but nobody
// wants it by accident.
void warn_small_budget(PolicyDraft& draft, const NodeRules& rules, Position at,
                       std::string_view path) {
  if (!rules.tokens_per_minute || *rules.tokens_per_minute == 0) return;
  const std::int64_t capacity =
      bucket_capacity(*rules.tokens_per_minute, rules.bucket_fraction_ppm);
  std::int64_t largest = rules.max_input_tokens.value_or(0);
  if (rules.charge == Charge::Max) {
    largest += std::max(rules.max_output_tokens.value_or(0), rules.default_max_tokens.value_or(0));
  }
  if (largest <= capacity) return;
  std::string message(path);
  message += ": a full token bucket holds " + std::to_string(capacity);
  message += " tokens (tokens_per_minute times bucket_fraction), so requests that reserve more";
  message += " are always refused, although the other limits allow " + std::to_string(largest);
  draft.notes.warning(at, std::move(message));
}

// What is written and never decides anything is legal too.
void warn_without_effect(PolicyDraft& draft, const NodeRules& rules,
                         const DocumentValue::Member& table, std::string_view path) {
  const auto place_of = [&](std::string_view key) {
    const auto* member = table.value.find(key);
    return member != nullptr ? member->value.at : table.at;
  };
  const auto in_line = [&](std::string_view key) {
    return " (line " + std::to_string(place_of(key).line) + ")";
  };
  const auto name_of = [&](ClassIndex index) { return draft.set.classes[index].name; };
  for (const ClassValue& limit : rules.inflight_by_class) {
    if (!rules.inflight || limit.value <= *rules.inflight) continue;
    draft.notes.warning(place_of("inflight_by_class"),
                        dotted(path, "inflight_by_class.") + name_of(limit.class_index) + " " +
                            std::to_string(limit.value) + " is more than its inflight " +
                            std::to_string(*rules.inflight) + in_line("inflight") +
                            ", so it limits nothing");
  }
  if (rules.default_class && rules.max_class && *rules.default_class < *rules.max_class) {
    draft.notes.warning(place_of("default_class"),
                        dotted(path, "default_class ") + name_of(*rules.default_class) +
                            " is above its max_class " + name_of(*rules.max_class) +
                            in_line("max_class") + ", to which it is always lowered");
  }
}

bool good_node_name(PolicyNotes& notes, const DocumentValue::Member& member) {
  if (is_good_name(member.name, "._-", 64)) return true;
  notes.error(member.at,
              "a department or team name has 1 to 64 letters, digits, '.', '-' and '_'");
  return false;
}

// Where a department lists its models.
std::optional<std::int64_t> line_of_models(const DocumentValue* depts, std::string_view name) {
  const auto* dept = depts != nullptr ? depts->find(name) : nullptr;
  const auto* models = dept != nullptr ? dept->value.find("models") : nullptr;
  if (models == nullptr) return std::nullopt;
  return models->value.at.line;
}

std::size_t department_index(const PolicySet& set, std::string_view name) {
  const auto it = std::ranges::find(set.departments, name, &Department::name);
  return static_cast<std::size_t>(it - set.departments.begin());
}

std::optional<std::size_t> read_dept(PolicyDraft& draft, const DocumentValue& value,
                                     std::string_view path) {
  const auto name = read_text(value, path, draft.notes);
  if (!name) return std::nullopt;
  const std::size_t index = department_index(draft.set, *name);
  if (index < draft.set.departments.size()) return index;
  std::vector<std::string_view> names;
  for (const Department& department : draft.set.departments) names.push_back(department.name);
  std::string message(path);
  message += " names a department without a [depts.*] table";
  message += did_you_mean(*name, names);
  draft.notes.error(value.at, std::move(message));
  return std::nullopt;
}

void check_team_reaches_a_model(PolicyDraft& draft, const Team& team, Position at,
                                std::optional<std::int64_t> dept_line) {
  const auto& team_list = team.rules.models;
  const auto& dept_list = draft.set.departments[team.department].rules.models;
  const auto allowed = [](const std::optional<std::vector<std::string>>& list,
                          const std::string& alias) {
    return !list || std::ranges::find(*list, alias) != list->end();
  };
  bool reaches = !team_list && !dept_list;
  for (const auto* list : {&team_list, &dept_list}) {
    if (!*list) continue;
    for (const std::string& alias : **list) {
      reaches = reaches || (allowed(team_list, alias) && allowed(dept_list, alias));
    }
  }
  if (reaches) return;
  std::string message = "teams." + team.name;
  message += " can use no model: the lists of the team and of its department";
  if (dept_line) message += " (line " + std::to_string(*dept_line) + ")";
  draft.notes.error(at, message + " have none in common");
}

}  // namespace

std::string_view home_of_node_key(std::string_view name) {
  if (std::ranges::find(kNodeKeys, name) != kNodeKeys.end()) {
    return "[defaults], [depts.NAME] and [teams.NAME]";
  }
  if (std::ranges::find(kDefaultsKeys, name) != kDefaultsKeys.end()) return "[defaults]";
  if (name == "dept") return "[teams.NAME]";
  return {};
}

std::string_view home_of_key(std::string_view name) {
  const std::string_view of_node = home_of_node_key(name);
  return of_node.empty() ? home_of_class_key(name) : of_node;
}

void read_models(PolicyDraft& draft, const DocumentValue& table) {
  PolicyNotes& notes = draft.notes;
  for (const auto& member : table.members) {
    const std::string path = dotted("models", member.name);
    if (!is_table(member.value, path, notes)) continue;
    if (!is_good_name(member.name, "._-/:@+", 128)) {
      notes.error(member.at,
                  "a model name has 1 to 128 letters, digits, '.', '-', '_', '/', ':', '@', '+'");
      continue;
    }
    if (draft.set.models.size() == kMaxModels) {
      notes.error(member.at, "there can be at most " + std::to_string(kMaxModels) + " models");
      return;
    }
    Model model;
    model.alias = member.name;
    if (member.value.find("serves") == nullptr) {
      notes.error(member.at, path + " needs serves = \"NAME\", the name of an engine");
    }
    for (const auto& key : member.value.members) {
      const std::string name = dotted(path, key.name);
      if (key.name == "serves") {
        assign(model.serves, read_text(key.value, name, notes));
        const auto& engines = draft.engine_models;
        if (engines && std::ranges::find(*engines, model.serves) == engines->end()) {
          const std::vector<std::string_view> names(engines->begin(), engines->end());
          notes.error(key.value.at, name + " names no engine of turnstile.toml" +
                                        did_you_mean(model.serves, names));
        }
      } else if (key.name == "default_class") {
        model.default_class = read_class_name(draft, key.value, name);
      } else if (key.name == "max_class") {
        model.max_class = read_class_name(draft, key.value, name);
      } else if (key.name == "max_input_tokens") {
        model.max_input_tokens = read_count(key.value, name, 1, kMaxCount, notes);
      } else {
        notes.unread_key(key, path, kModelKeys, kLaterModelKeys, home_of_key(key.name));
      }
    }
    draft.set.models.push_back(std::move(model));
  }
}

NodeDefaults read_defaults(PolicyDraft& draft, const DocumentValue* table) {
  NodeDefaults defaults;
  defaults.team.queue_requests = kTeamQueueRequests;
  if (table != nullptr) {
    for (const auto& member : table->members) {
      if (member.name == "queue_requests_total") {
        assign(draft.set.queue_requests_total,
               read_count(member.value, "defaults.queue_requests_total", 0, kMaxCount,
                          draft.notes));
      } else if (member.name == "locality_slack") {
        assign(draft.set.locality_slack_units,
               read_count(member.value, "defaults.locality_slack", 0, kMaxCount, draft.notes));
      } else if (!read_node_key(draft, member, "defaults", defaults.team)) {
        draft.notes.unread_key(member, "defaults", both(kNodeKeys, kDefaultsKeys),
                               kLaterNodeKeys, home_of_key(member.name));
      }
    }
  }
  defaults.other.weight = defaults.team.weight;
  defaults.other.charge = defaults.team.charge;
  defaults.other.bucket_fraction_ppm = defaults.team.bucket_fraction_ppm;
  defaults.other.cached_weight_milli = defaults.team.cached_weight_milli;
  draft.set.key_defaults = defaults.other;
  draft.set.key_defaults.weight = 1;
  return defaults;
}

void read_nodes(PolicyDraft& draft, const DocumentValue* depts, const DocumentValue* teams,
                const NodeDefaults& defaults) {
  PolicyNotes& notes = draft.notes;
  if (depts != nullptr) {
    for (const auto& member : depts->members) {
      const std::string path = dotted("depts", member.name);
      if (!is_table(member.value, path, notes) || !good_node_name(notes, member)) continue;
      if (draft.set.departments.size() == kMaxDepartments) {
        notes.error(member.at, "there can be at most " + std::to_string(kMaxDepartments) +
                                   " departments");
        break;
      }
      Department department{member.name, defaults.other};
      for (const auto& key : member.value.members) {
        if (!read_node_key(draft, key, path, department.rules)) {
          notes.unread_key(key, path, kNodeKeys, kLaterNodeKeys, home_of_key(key.name));
        }
      }
      warn_small_budget(draft, department.rules, member.at, path);
      warn_without_effect(draft, department.rules, member, path);
      draft.set.departments.push_back(std::move(department));
    }
  }
  if (teams == nullptr) return;
  for (const auto& member : teams->members) {
    const std::string path = dotted("teams", member.name);
    if (!is_table(member.value, path, notes) || !good_node_name(notes, member)) continue;
    if (draft.set.teams.size() == kMaxTeams) {
      notes.error(member.at, "there can be at most " + std::to_string(kMaxTeams) + " teams");
      break;
    }
    Team team{member.name, 0, defaults.team};
    std::optional<std::size_t> department;
    const bool names_dept = member.value.find("dept") != nullptr;
    if (!names_dept) {
      std::string example = "NAME";
      if (draft.set.departments.size() == 1) example = draft.set.departments[0].name;
      notes.error(member.at, path + " needs dept = \"" + example + "\", its department");
    }
    for (const auto& key : member.value.members) {
      if (key.name == "dept") {
        department = read_dept(draft, key.value, dotted(path, key.name));
      } else if (!read_node_key(draft, key, path, team.rules)) {
        notes.unread_key(key, path, both(kNodeKeys, kTeamKeys), kLaterNodeKeys,
                         home_of_key(key.name));
      }
    }
    warn_small_budget(draft, team.rules, member.at, path);
    warn_without_effect(draft, team.rules, member, path);
    if (!department) continue;
    team.department = *department;
    check_team_reaches_a_model(draft, team, member.at,
                               line_of_models(depts, draft.set.departments[*department].name));
    draft.set.teams.push_back(std::move(team));
  }
}

}  // namespace turnstile::policy
