// config_table.h: every setting of turnstile.toml, once: name, field, range.
//
// A reader of the file, a reader of flags and a printer visit the same table, so that a setting
// cannot be parsed and not shown, or shown under another name. Defaults: gateway/config/config.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/config/config.h"

namespace turnstile::gateway {

struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::int64_t>::max();
};

class SettingVisitor {
 public:
  virtual ~SettingVisitor() = default;
  virtual void listen_address(std::string_view name, ListenAddress& field) = 0;
  virtual void path(std::string_view name, std::filesystem::path& field) = 0;
  virtual void text(std::string_view name, std::string& field) = 0;
  virtual void boolean(std::string_view name, bool& field) = 0;
  virtual void audit_mode(std::string_view name, AuditMode& field) = 0;
  virtual void duration(std::string_view name, Milliseconds& field, Range ms) = 0;
  virtual void size(std::string_view name, std::size_t& field, Range bytes) = 0;
  virtual void optional_size(std::string_view name, std::optional<std::size_t>& field,
                             Range bytes) = 0;
  virtual void count(std::string_view name, std::uint32_t& field, Range range) = 0;
  virtual void optional_count(std::string_view name, std::optional<std::uint32_t>& field,
                              Range range) = 0;
};

void visit_settings(ServerConfig& server, SettingVisitor& visitor);
void visit_settings(PolicyPaths& policy, SettingVisitor& visitor);
void visit_settings(AuditConfig& audit, SettingVisitor& visitor);
void visit_settings(ModelConfig& model, SettingVisitor& visitor);
void visit_settings(LimitsConfig& limits, SettingVisitor& visitor);

// Settings of parts that this build does not have; naming one is an error that says so.
struct LaterSetting {
  std::string_view key;  // "models.gpu_memory_utilization", "upstreams"
  std::string_view why;  // ends the sentence "KEY ..."
};
std::span<const LaterSetting> later_settings();

// Where a setting of this name stands: "[server]", "[[models]]"; empty when there is none.
std::string_view home_of_setting(std::string_view name);

}  // namespace turnstile::gateway
