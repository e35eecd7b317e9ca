// The command-line side of config_draft.h.
#include <cassert>

#include "gateway/config/config_draft.h"
#include "gateway/config/config_table.h"
#include "gateway/config/config_values.h"

namespace turnstile::gateway {
namespace {

// Visits all settings of a section and assigns the one that the flag stands for.
class OverrideReader final : public SettingVisitor {
 public:
  OverrideReader(std::string_view wanted, std::string_view value)
      : wanted_(wanted), value_(value) {}

  void listen_address(std::string_view name, ListenAddress& field) override {
    if (is_wanted(name)) result_ = assign_address(value_, field);
  }
  void path(std::string_view name, std::filesystem::path& field) override {
    if (!is_wanted(name)) return;
    std::string text;
    result_ = assign_text(value_, text);
    // A path on the command line is relative to where the command was given.
    if (!text.empty()) field = std::filesystem::absolute(text).lexically_normal();
    else field.clear();
  }
  void text(std::string_view name, std::string& field) override {
    if (is_wanted(name)) result_ = assign_text(value_, field);
  }
  void boolean(std::string_view name, bool& field) override {
    if (is_wanted(name)) result_ = assign_boolean(value_, field);
  }
  void audit_mode(std::string_view name, AuditMode& field) override {
    if (is_wanted(name)) result_ = assign_audit_mode(value_, field);
  }
  void duration(std::string_view name, Milliseconds& field, Range ms) override {
    if (is_wanted(name)) result_ = assign_duration(value_, field, ms);
  }
  void size(std::string_view name, std::size_t& field, Range bytes) override {
    if (is_wanted(name)) result_ = assign_size(value_, field, bytes);
  }
  void optional_size(std::string_view name, std::optional<std::size_t>& field,
                     Range bytes) override {
    if (!is_wanted(name)) return;
    std::size_t size = 0;
    result_ = assign_size(value_, size, bytes);
    if (result_) field = size;
  }
  void count(std::string_view name, std::uint32_t& field, Range range) override {
    if (is_wanted(name)) result_ = assign_count(value_, field, range);
  }
  void optional_count(std::string_view name, std::optional<std::uint32_t>& field,
                      Range range) override {
    if (!is_wanted(name)) return;
    std::uint32_t count = 0;
    result_ = assign_count(value_, count, range);
    if (result_) field = count;
  }

  bool was_found() const { return was_found_; }
  const Assigned& result() const { return result_; }

 private:
  bool is_wanted(std::string_view name) {
    was_found_ = was_found_ || name == wanted_;
    return name == wanted_;
  }

  std::string_view wanted_;
  std::string value_;
  bool was_found_ = false;
  Assigned result_;
};

// --host and --port change one half of `listen`, as vLLM users expect.
Assigned assign_half(std::string_view half, const std::string& value, ListenAddress& listen) {
  const bool is_v6 = half == "host" && value.find(':') != std::string::npos && value[0] != '[';
  const std::string host = is_v6 ? "[" + value + "]" : value;
  const std::string old_host = ListenAddress{listen.host, 0, {}}.text();
  const std::string text = half == "host"
                               ? host + ":" + std::to_string(listen.port)
                               : old_host.substr(0, old_host.rfind(':')) + ":" + value;
  const auto address = parse_listen_address(text);
  if (!address) {
    return tl::unexpected(std::string(half == "host" ? "must be an address or a host name."
                                                     : "must be a port from 0 to 65535."));
  }
  listen = *address;
  return {};
}

void apply(const Override& given, ConfigDraft& draft) {
  const std::size_t dot = given.key.find('.');
  const std::string_view section = std::string_view(given.key).substr(0, dot);
  const std::string_view name = std::string_view(given.key).substr(dot + 1);
  draft.places[given.key] = {given.flag, 0, 0, {}};
  const auto report = [&](const Assigned& assigned) {
    if (!assigned) draft.errors.push_back({given.flag, 0, 0, assigned.error()});
  };

  if (given.key == "server.host" || given.key == "server.port") {
    draft.config.origins["server.listen"] = Origin::Flag;
    draft.places["server.listen"] = {given.flag, 0, 0, {}};
    return report(assign_half(name, given.value, draft.config.server.listen));
  }
  if (given.key == "models.gpu_memory_utilization") {
    draft.config.warnings.push_back(given.flag +
                                    " has no effect: this build computes on the CPU; the size of "
                                    "the KV cache is --kv-cache-memory-bytes.");
    return;
  }
  if (given.key == "models.tensor_parallel_size" && given.value == "1") return;
  for (const LaterSetting& later : later_settings()) {
    if (later.key == given.key) return report(tl::unexpected(std::string(later.why)));
  }

  OverrideReader reader(name, given.value);
  Config& config = draft.config;
  if (section == "server") visit_settings(config.server, reader);
  if (section == "policy") visit_settings(config.policy, reader);
  if (section == "audit") visit_settings(config.audit, reader);
  if (section == "limits") visit_settings(config.limits, reader);
  if (section == "models") {
    if (config.models.empty()) config.models.emplace_back();
    visit_settings(config.models.front(), reader);
    // Another file under the name of the file's model would be served under a wrong name.
    if (name == "path" && config.origins.contains("models.name")) {
      config.origins.erase("models.name");
      config.models.front().name.clear();
    }
  }
  assert(reader.was_found() && "every flag stands for a setting");
  config.origins[given.key] = Origin::Flag;
  report(reader.result());
}

}  // namespace

void apply_overrides(const CommandLineOverrides& overrides, ConfigDraft& draft) {
  // The model's path first: it clears a name from the file, which --served-model-name sets again.
  for (const Override& given : overrides) {
    if (given.key == "models.path") apply(given, draft);
  }
  for (const Override& given : overrides) {
    if (given.key != "models.path") apply(given, draft);
  }
}

}  // namespace turnstile::gateway
