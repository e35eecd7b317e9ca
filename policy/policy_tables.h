// policy_tables.h: the tables of policies.toml, each read into its part of the PolicySet.
//
// Private to the policy file reader. Order matters: classes and models first, because the other
// tables name them. Every function reports all that is wrong in its table and reads on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_document.h"
#include "policy/policy_notes.h"
#include "policy/policy_set.h"

namespace turnstile::policy {

struct PolicyDraft {
  PolicySet set;  // grows while the tables are read
  PolicyNotes& notes;
  std::optional<std::vector<std::string>> engine_models;
};

// [classes.*]: starts from the built-in classes; sorts by rank at the end.
void read_classes(PolicyDraft& draft, const DocumentValue& table);

// [models.*]
void read_models(PolicyDraft& draft, const DocumentValue& table);

// What [defaults] says, split by who starts from it.
struct NodeDefaults {
  NodeRules team;   // every limit
  NodeRules other;  // departments and keys: how to share and charge, but no limits
};
// `table` may be null. Also reads queue_requests_total.
NodeDefaults read_defaults(PolicyDraft& draft, const DocumentValue* table);

// [depts.*] and [teams.*], either may be null; checks what only both together show.
void read_nodes(PolicyDraft& draft, const DocumentValue* depts, const DocumentValue* teams,
                const NodeDefaults& defaults);

// The class of that name, or an error at `at` with the nearest name.
std::optional<ClassIndex> class_named(PolicyDraft& draft, std::string_view name, Position at,
                                      std::string_view path);

// A class named at `value`, or an error with the nearest name.
std::optional<ClassIndex> read_class_name(PolicyDraft& draft, const DocumentValue& value,
                                          std::string_view path);

// In which tables a key stands, for one that was found in another: "" for a key of none.
std::string_view home_of_node_key(std::string_view name);
std::string_view home_of_class_key(std::string_view name);
std::string_view home_of_key(std::string_view name);

// Names become meter names, labels and parts of log lines: letters, digits and a few marks.
bool is_good_name(std::string_view name, std::string_view marks, std::size_t longest);

}  // namespace turnstile::policy
