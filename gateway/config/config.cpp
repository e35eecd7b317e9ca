#include "gateway/config/config.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "gateway/config/config_draft.h"
#include "gateway/config/config_table.h"
#include "gateway/config/quantity.h"
#include "gateway/config/speculative_config.h"
#include "gateway/whole_file.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

class Printer final : public SettingVisitor {
 public:
  Printer(std::string section, const Config& config, std::vector<EffectiveSetting>& out)
      : section_(std::move(section)), config_(config), out_(out) {}

  void listen_address(std::string_view name, ListenAddress& field) override {
    quoted(name, field.text());
  }
  void path(std::string_view name, fs::path& field) override { quoted(name, field.string()); }
  void text(std::string_view name, std::string& field) override { quoted(name, field); }
  void boolean(std::string_view name, bool& field) override {
    add(name, field ? "true" : "false");
  }
  void audit_mode(std::string_view name, AuditMode&) override { quoted(name, "async"); }
  void duration(std::string_view name, Milliseconds& field, Range) override {
    quoted(name, duration_text(field));
  }
  void size(std::string_view name, std::size_t& field, Range) override {
    quoted(name, size_text(field));
  }
  void optional_size(std::string_view name, std::optional<std::size_t>& field, Range) override {
    if (field) quoted(name, size_text(*field));
  }
  void count(std::string_view name, std::uint32_t& field, Range) override {
    add(name, std::to_string(field));
  }
  void optional_count(std::string_view name, std::optional<std::uint32_t>& field,
                      Range) override {
    if (field) add(name, std::to_string(*field));
  }

 private:
  void quoted(std::string_view name, const std::string& value) {
    if (!value.empty()) add(name, "\"" + value + "\"");
  }
  void add(std::string_view name, std::string value) {
    std::string key = section_ + "." + std::string(name);
    const auto origin = config_.origins.find(key);
    out_.push_back({std::move(key), std::move(value),
                    origin == config_.origins.end() ? Origin::Default : origin->second});
  }

  std::string section_;
  const Config& config_;
  std::vector<EffectiveSetting>& out_;
};

void resolve(fs::path& path, const fs::path& base) {
  if (!path.empty() && path.is_relative()) path = (base / path).lexically_normal();
}

void resolve_paths(Config& config, const fs::path& base) {
  for (fs::path* path :
       {&config.server.tls_cert, &config.server.tls_key, &config.server.state_dir,
        &config.server.admin_key_file, &config.server.listen.unix_path,
        &config.server.admin_listen.unix_path, &config.policy.file, &config.policy.keys,
        &config.policy.pepper}) {
    resolve(*path, base);
  }
  for (ModelConfig& model : config.models) {
    resolve(model.path, base);
    const auto speculation = parse_speculative_config(model.speculative_config);
    assert(speculation && "the configuration was checked");
    model.draft_model = speculation->model;
    const auto origin = config.origins.find("models.speculative_config");
    // On the command line it is relative to where the command was given.
    if (origin != config.origins.end() && origin->second == Origin::File) {
      resolve(model.draft_model, base);
    }
    if (model.name.empty()) model.name = model.path.stem().string();
  }
}

tl::expected<Config, ConfigFailure> finish(ConfigDraft draft,
                                           const CommandLineOverrides& overrides) {
  apply_overrides(overrides, draft);
  if (draft.errors.empty()) check(draft);
  if (!draft.errors.empty()) {
    std::ranges::stable_sort(draft.errors, {}, [](const ConfigError& error) {
      return std::pair(error.line, error.column);
    });
    return tl::unexpected(ConfigFailure{false, std::move(draft.errors)});
  }
  resolve_paths(draft.config, draft.config.file.parent_path());
  return std::move(draft.config);
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::Default: return "default";
    case Origin::File: return "file";
    case Origin::Flag: return "flag";
  }
  return {};
}

std::string to_string(const ConfigError& error) {
  std::string text = policy::plain_text(error.file);
  if (error.line != 0) {
    text += ":" + std::to_string(error.line) + ":" + std::to_string(error.column);
  }
  return text + ": error: " + policy::plain_text(error.message);
}

void ConfigDraft::fail(std::string_view key, std::string_view sentence) {
  const auto place = places.find(key);
  ConfigError error = place == places.end() ? ConfigError{file_name, 0, 0, {}} : place->second;
  error.message = std::string(key) + " " + std::string(sentence);
  errors.push_back(std::move(error));
}

tl::expected<Config, ConfigFailure> read_config(std::string_view text, const fs::path& file,
                                                const CommandLineOverrides& overrides) {
  ConfigDraft draft;
  draft.config.file = file;
  draft.file_name = file.string();
  read_file(text, draft);
  return finish(std::move(draft), overrides);
}

tl::expected<Config, ConfigFailure> load_config(const fs::path& file,
                                                const CommandLineOverrides& overrides) {
  if (file.empty()) {
    ConfigDraft draft;
    draft.file_name = "turnstile.toml";
    return finish(std::move(draft), overrides);
  }
  const auto text = read_whole_file(file);
  if (!text) {
    return tl::unexpected(ConfigFailure{
        true,
        {{file.string(), 0, 0,
          "the file cannot be read; name another with --config, or run 'turnstile init DIR'."}}});
  }
  return read_config(*text, file, overrides);
}

fs::path find_config_file(const std::optional<fs::path>& given) {
  if (given) return *given;
  for (const char* path : {"turnstile.toml", ".turnstile/turnstile.toml"}) {
    if (fs::exists(path)) return path;
  }
  return {};
}

std::vector<EffectiveSetting> effective(const Config& config) {
  Config copy = config;  // the visitor takes fields that it may change
  std::vector<EffectiveSetting> settings;
  const auto print = [&](const char* section, auto& values) {
    Printer printer(section, config, settings);
    visit_settings(values, printer);
  };
  print("server", copy.server);
  print("policy", copy.policy);
  print("audit", copy.audit);
  for (ModelConfig& model : copy.models) print("models", model);
  print("limits", copy.limits);
  return settings;
}

}  // namespace turnstile::gateway
