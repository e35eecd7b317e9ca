#include "policy/policy_file.h"

#include <array>
#include <utility>

#include "policy/policy_document.h"
#include "policy/policy_notes.h"
#include "policy/policy_tables.h"
#include "policy/policy_values.h"

namespace turnstile::policy {
namespace {

constexpr std::array<std::string_view, 6> kRootKeys = {"schema", "defaults", "classes",
                                                       "models", "depts",    "teams"};
constexpr std::array<std::string_view, 5> kLaterRootKeys = {"timezone", "schedule", "rule",
                                                            "raise", "reload"};
constexpr std::int64_t kSchema = 1;

// The table of that name, or null with an error when the name holds something else.
const DocumentValue* root_table(const DocumentValue& root, std::string_view name,
                                PolicyNotes& notes) {
  const auto* member = root.find(name);
  if (member == nullptr || !is_table(member->value, name, notes)) return nullptr;
  return &member->value;
}

void read_schema(const DocumentValue& root, PolicyNotes& notes) {
  const auto* member = root.find("schema");
  if (member == nullptr) {
    if (!root.members.empty()) {
      notes.warning({1, 1}, "schema is missing; write schema = 1, so that a later version knows "
                            "how the file was meant");
    }
    return;
  }
  const DocumentValue& value = member->value;
  if (value.kind == DocumentValue::Kind::Integer && value.integer == kSchema) return;
  notes.error(value.at, "schema must be 1, the only one that this version knows");
}

void read_root(PolicyDraft& draft, const DocumentValue& root) {
  PolicyNotes& notes = draft.notes;
  read_schema(root, notes);
  for (const auto& member : root.members) {
    bool known = false;
    for (const std::string_view name : kRootKeys) known = known || member.name == name;
    if (known) continue;
    const bool is_value = member.value.kind != DocumentValue::Kind::Table;
    notes.unread_key(member, "", kRootKeys, kLaterRootKeys,
                     is_value ? home_of_key(member.name) : std::string_view{});
  }
  if (const auto* classes = root_table(root, "classes", notes)) read_classes(draft, *classes);
  if (const auto* models = root_table(root, "models", notes)) read_models(draft, *models);
  const NodeDefaults defaults = read_defaults(draft, root_table(root, "defaults", notes));
  read_nodes(draft, root_table(root, "depts", notes), root_table(root, "teams", notes), defaults);
  if (draft.set.teams.empty() && !notes.has_errors()) {
    notes.warning({1, 1}, "the policy has no team, so no key can be used");
  }
}

}  // namespace

PolicyFileResult read_policy(const PolicyFileInput& input) {
  PolicyNotes notes(input.file_name);
  PolicyFileResult result;
  PolicyDraft draft{default_policy_set(), notes, input.engine_models};
  draft.set.revision = input.revision;
  if (input.text.size() > kMaxPolicyFileBytes) {
    notes.error({1, 1},
                "the file is larger than " + std::to_string(kMaxPolicyFileBytes) + " bytes");
  } else if (const auto document = parse_document(input.text)) {
    read_root(draft, *document);
  } else {
    notes.error(document.error().at, document.error().message);
  }
  if (!notes.has_errors()) {
    result.policy = std::make_shared<const PolicySet>(std::move(draft.set));
  }
  result.errors = notes.take_errors();
  result.warnings = notes.take_warnings();
  return result;
}

}  // namespace turnstile::policy
