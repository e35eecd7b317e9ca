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

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace turnstile::gateway {

using Milliseconds = std::chrono::milliseconds;

// "127.0.0.1:8000", "[::1]:8000", "0.0.0.0:0" (a free port) or "unix:PATH".
struct ListenAddress {
  std::string host;  // without brackets; empty for a unix socket
  std::uint16_t port = 0;
  std::filesystem::path unix_path;

  bool is_unix() const { return !unix_path.empty(); }
  bool is_loopback() const;  // 127.0.0.0/8, ::1, localhost, or a unix socket
  std::string text() const;
};
tl::expected<ListenAddress, std::string> parse_listen_address(std::string_view text);

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

// What the wire, a connection, a body and a stream may cost. 0 = no limit where it says so.
struct LimitsConfig {
  // Wire.
  std::size_t read_buffer_bytes = 64 << 10;
  std::size_t max_header_bytes = 16 << 10;        // request line and header fields together
  std::size_t max_header_field_bytes = 8 << 10;
  std::uint32_t max_header_count = 64;
  std::size_t max_target_bytes = 2 << 10;
  std::uint32_t max_body_chunks = 16'384;
  std::size_t max_body_bytes = 4 << 20;
  std::size_t max_team_inflight_body_bytes = 64 << 20;
  std::size_t max_inflight_body_bytes = 512 << 20;
  std::uint32_t max_json_depth = 32;
  std::uint32_t max_json_keys = 10'000;
  std::uint32_t max_messages = 2'048;
  std::size_t max_prompt_bytes = 1 << 20;
  // Connections.
  std::uint32_t max_connections = 4'096;              // 0: no limit
  std::uint32_t max_connections_per_address = 256;    // 0: no limit; loopback is exempt
  std::uint32_t max_handshakes = 64;                  // TLS handshakes at a time; the oldest goes
  std::uint32_t max_requests_per_connection = 1'000;  // then Connection: close; 0: no limit
  Milliseconds handshake_timeout{5'000};              // accept to TLS done
  Milliseconds header_timeout{10'000};                // first byte to the end of the header
  Milliseconds body_timeout{30'000};                  // plus size / body_bytes_per_second
  std::size_t body_bytes_per_second = 64 << 10;  // also of a client that takes a whole answer
  Milliseconds write_stall_timeout{15'000};  // no byte accepted by the peer
  Milliseconds request_timeout{600'000};     // whole request
  Milliseconds keep_alive_timeout{30'000};   // idle between requests
  Milliseconds accept_error_wait{100};
  // What is read of a body after its request was refused, so that the client sees the answer.
  std::size_t refused_body_bytes = 256 << 10;
  Milliseconds refused_body_timeout{2'000};
  // Streams.
  std::size_t send_buffer_bytes = 64 << 10;   // the socket's; small, so that a slow reader shows
  std::size_t stream_soft_bytes = 64 << 10;   // unsent for over stream_soft_time: client_slow
  Milliseconds stream_soft_time{5'000};
  std::size_t stream_hard_bytes = 256 << 10;  // client_slow at once
  Milliseconds stream_wait_comment{15'000};   // ": wait" after so much silence
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
