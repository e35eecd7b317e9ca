// The TOML side of config_draft.h.
#include <array>
#include <vector>

#include "gateway/config/config_draft.h"
#include "gateway/config/config_table.h"
#include "gateway/config/config_values.h"
#include "gateway/config/suggestion.h"
#include "gateway/config/toml_text.h"

namespace turnstile::gateway {
namespace {

// Fills one section from its table; what is in the table and in no setting is reported by finish().
class SectionReader final : public SettingVisitor {
 public:
  SectionReader(std::string section, const toml::table& table, ConfigDraft& draft)
      : section_(std::move(section)), table_(table), draft_(draft) {}

  void listen_address(std::string_view name, ListenAddress& field) override {
    if (const auto value = string(name, "a string such as \"127.0.0.1:8000\"")) {
      report(name, assign_address(*value, field));
    }
  }
  void path(std::string_view name, std::filesystem::path& field) override {
    if (const auto value = string(name, "a string")) field = *value;
  }
  void text(std::string_view name, std::string& field) override {
    if (const auto value = string(name, "a string")) field = *value;
  }
  void boolean(std::string_view name, bool& field) override {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (const auto* value = node->as_boolean()) {
      field = value->get();
    } else {
      draft_.fail(key(name), node->is_string() ? "must be true or false, without quotes."
                                               : "must be true or false.");
    }
  }
  void audit_mode(std::string_view name, AuditMode& field) override {
    if (const auto value = string(name, "a string")) {
      report(name, assign_audit_mode(*value, field));
    }
  }
  void duration(std::string_view name, Milliseconds& field, Range ms) override {
    if (const auto value = string(name, "a string with a unit such as \"5s\"")) {
      report(name, assign_duration(*value, field, ms));
    }
  }
  void size(std::string_view name, std::size_t& field, Range bytes) override {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (const auto* number = node->as_integer()) {
      report(name, assign_size(number->get(), field, bytes));
    } else if (const auto* value = node->as_string()) {
      report(name, assign_size(value->get(), field, bytes));
    } else {
      draft_.fail(key(name), "must be a size such as \"64KiB\" or a number of bytes.");
    }
  }
  void count(std::string_view name, std::uint32_t& field, Range range) override {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (const auto* number = node->as_integer()) {
      report(name, assign_count(number->get(), field, range));
    } else if (const auto* value = node->as_string()) {
      report(name, assign_count(value->get(), field, range));
    } else {
      draft_.fail(key(name), "must be a whole number such as 64 or \"2k\".");
    }
  }
  void optional_size(std::string_view name, std::optional<std::size_t>& field,
                     Range bytes) override {
    std::size_t value = field.value_or(0);
    size(name, value, bytes);
    if (table_.contains(name)) field = value;
  }
  void optional_count(std::string_view name, std::optional<std::uint32_t>& field,
                      Range range) override {
    std::uint32_t value = field.value_or(0);
    count(name, value, range);
    if (table_.contains(name)) field = value;
  }

  void finish() {
    for (const auto& [name, node] : table_) {
      bool is_known = false;
      for (const std::string_view seen : seen_) is_known = is_known || seen == name.str();
      if (is_known) continue;
      const std::string full = key(name.str());
      draft_.places[full] = {draft_.file_name, name.source().begin.line,
                             name.source().begin.column, {}};
      report_unknown(full, name.str());
    }
  }

 private:
  std::string key(std::string_view name) const { return section_ + "." + std::string(name); }

  const toml::node* find(std::string_view name) {
    seen_.push_back(name);
    const toml::node* node = table_.get(name);
    if (node != nullptr) {
      const toml::source_position begin = node->source().begin;
      draft_.places[key(name)] = {draft_.file_name, begin.line, begin.column, {}};
      draft_.config.origins[key(name)] = Origin::File;
    }
    return node;
  }

  std::optional<std::string> string(std::string_view name, std::string_view expected) {
    const toml::node* node = find(name);
    if (node == nullptr) return std::nullopt;
    if (const auto* value = node->as_string()) {
      std::string text;
      const Assigned assigned = assign_text(value->get(), text);
      if (assigned) return text;
      report(name, assigned);
      return std::nullopt;
    }
    draft_.fail(key(name), "must be " + std::string(expected) + ".");
    return std::nullopt;
  }

  void report(std::string_view name, const Assigned& assigned) {
    if (!assigned) draft_.fail(key(name), assigned.error());
  }

  void report_unknown(const std::string& full, std::string_view name) {
    for (const LaterSetting& later : later_settings()) {
      if (later.key == full) return draft_.fail(full, later.why);
    }
    const std::string_view home = home_of_setting(name);
    if (!home.empty()) {
      return draft_.fail(full, "does not stand here: it is a setting of " + std::string(home) + ".");
    }
    draft_.fail(full, "is not a setting" + suggestion(name, seen_) + ".");
  }

  std::string section_;
  const toml::table& table_;
  ConfigDraft& draft_;
  std::vector<std::string_view> seen_;
};

template <typename Section>
void read_section(const std::string& name, const toml::table& table, Section& section,
                  ConfigDraft& draft) {
  SectionReader reader(name, table, draft);
  visit_settings(section, reader);
  reader.finish();
}

void read_models(const toml::node& node, ConfigDraft& draft) {
  const toml::array* entries = node.as_array();
  if (entries == nullptr || !entries->is_homogeneous(toml::node_type::table)) {
    draft.errors.push_back(
        error_at(draft.file_name, node.source(), "models must be written as [[models]]."));
    return;
  }
  for (std::size_t i = 1; i < entries->size(); ++i) {
    draft.errors.push_back(error_at(
        draft.file_name, (*entries)[i].source(),
        "a second [[models]] entry is not available in this build: keep one."));
  }
  if (!entries->empty()) {
    read_section("models", *entries->front().as_table(), draft.config.models.emplace_back(), draft);
  }
}

}  // namespace

void read_file(std::string_view text, ConfigDraft& draft) {
  const auto root = parse_toml(text, draft.file_name);
  if (!root) {
    draft.errors.push_back(root.error());
    return;
  }
  constexpr std::array<std::string_view, 5> kSections{"server", "policy", "audit", "models",
                                                      "limits"};
  for (const auto& [name, node] : *root) {
    const std::string section(name.str());
    const toml::table* table = node.as_table();
    if (section == "models") {
      read_models(node, draft);
    } else if (section == "server" && table != nullptr) {
      read_section(section, *table, draft.config.server, draft);
    } else if (section == "policy" && table != nullptr) {
      read_section(section, *table, draft.config.policy, draft);
    } else if (section == "audit" && table != nullptr) {
      read_section(section, *table, draft.config.audit, draft);
    } else if (section == "limits" && table != nullptr) {
      read_section(section, *table, draft.config.limits, draft);
    } else {
      const std::string_view home = table == nullptr ? home_of_setting(section) : "";
      std::string sentence =
          home.empty() ? "is not a section" + suggestion(section, kSections) + "."
                       : "does not stand here: it is a setting of " + std::string(home) + ".";
      for (const LaterSetting& later : later_settings()) {
        if (later.key == section) sentence = later.why;
      }
      for (const std::string_view known : kSections) {
        if (known == section) sentence = "must be a table: write [" + section + "].";
      }
      draft.places[section] = error_at(draft.file_name, name.source(), {});
      draft.fail(section, sentence);
    }
  }
}

}  // namespace turnstile::gateway
