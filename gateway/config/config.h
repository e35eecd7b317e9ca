// config.h: turnstile.toml and the flags of `serve` as one checked value.
//
//   defaults  <  turnstile.toml  <  flags         each setting remembers where its value is from
//
// All errors are found in one pass and reported together, as file:line:col or by the flag's name;
// an unknown key is an error with the nearest known name. A setting of a part that this build does
// not have (audit mode group, [[upstreams]], a second model, a GPU device) is an error
// that says so: nothing is accepted and then ignored.
//
// Paths are relative to the folder of the file and are resolved here. The names, ranges and units
// of all settings are in one table, gateway/config/config_table.h.
//
// Thread: any; values. Errors: ConfigError; nothing throws.
// Tests:  tests/gateway/config_test.cpp (a table of texts and their errors).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/config/limits_config.h"
#include "gateway/config/listen_address.h"

namespace turnstile::gateway {

struct ServerConfig {
  ListenAddress listen{"127.0.0.1", 8000, {}};
  ListenAddress admin_listen{"127.0.0.1", 8001, {}};
  std::filesystem::path tls_cert;  // both set or both empty
  std::filesystem::path tls_key;
  bool allow_plaintext = false;
  std::filesystem::path state_dir = "state";
  std::filesystem::path admin_key_file;  // empty: none (gateway/admin_access.h)
  Milliseconds drain_delay{5'000};
  Milliseconds drain_timeout{60'000};

  bool has_tls() const { return !tls_cert.empty(); }
};

struct PolicyPaths {
  std::filesystem::path file = "policies.toml";
  std::filesystem::path keys = "keys.toml";
  std::filesystem::path pepper = "pepper";
};

enum class AuditMode : std::uint8_t { Async };

struct AuditConfig {
  AuditMode mode = AuditMode::Async;
};

struct ModelConfig {
  std::string name;            // empty in the file: the file's stem
  std::filesystem::path path;  // GGUF file
  std::optional<std::uint32_t> max_model_len;  // absent: what the model and the KV cache allow
  std::uint32_t max_num_seqs = 32;
  std::uint32_t max_num_batched_tokens = 512;
  std::optional<std::size_t> kv_cache_memory_bytes;  // absent: engine/kv_pool_size.h decides
  std::string kv_cache_dtype = "auto";  // or "f16", "int8" (engine/loader/kv_cache_dtype.h)
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::string speculative_config;  // JSON (gateway/config/speculative_config.h); empty: off
  std::filesystem::path draft_model;  // that it names, from the configuration's folder; or empty
  std::string device = "auto";  // auto and cpu mean the same in this build
  std::uint32_t threads = 0;    // 0: chosen and printed
  std::string kernels = "auto";  // or a lower instruction set: "scalar", "avx2", "avx-vnni", ...
  std::string numerics = "exact";  // or "fast" (engine/loader/kernel_choice.h)
};

enum class Origin : std::uint8_t { Default, File, Flag };
std::string_view to_string(Origin origin);

struct Config {
  std::filesystem::path file;  // empty: none was found, all values are defaults or flags
  ServerConfig server;
  PolicyPaths policy;
  AuditConfig audit;
  std::vector<ModelConfig> models;  // one, or none when neither file nor flags name a model
  LimitsConfig limits;
  std::map<std::string, Origin, std::less<>> origins;  // "server.listen" -> File; absent: Default
  std::vector<std::string> warnings;                   // sentences to print at start
};

// One flag of the command line: the flag as typed, the setting it stands for, the text given.
struct Override {
  std::string flag;  // "--max-num-seqs"
  std::string key;   // "models.max_num_seqs"
  std::string value;
};
using CommandLineOverrides = std::vector<Override>;

struct ConfigError {
  std::string file;  // or the flag
  std::uint32_t line = 0;  // 0: the file as a whole, or a flag
  std::uint32_t column = 0;
  std::string message;  // one sentence
};
std::string to_string(const ConfigError& error);  // "FILE:LINE:COL: error: sentence"

struct ConfigFailure {
  bool is_environment = false;  // the file cannot be read: exit code 3 instead of 1
  std::vector<ConfigError> errors;
};

// `file` empty: defaults and overrides alone, relative to the current folder. Files that settings
// name are not opened here.
tl::expected<Config, ConfigFailure> load_config(const std::filesystem::path& file,
                                                const CommandLineOverrides& overrides);

// The same from text; `file` is the name in errors, its folder the base of relative paths.
tl::expected<Config, ConfigFailure> read_config(std::string_view text,
                                                const std::filesystem::path& file,
                                                const CommandLineOverrides& overrides);

// --config FILE, else ./turnstile.toml, else ./.turnstile/turnstile.toml, else empty.
std::filesystem::path find_config_file(const std::optional<std::filesystem::path>& given);

struct EffectiveSetting {
  std::string key;    // "models.max_num_seqs"
  std::string value;  // as it could be written in the file
  Origin origin = Origin::Default;
};
std::vector<EffectiveSetting> effective(const Config& config);

}  // namespace turnstile::gateway
