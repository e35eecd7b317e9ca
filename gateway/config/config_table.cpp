#include "gateway/config/config_table.h"

#include <array>

namespace turnstile::gateway {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kSecond = 1'000;
constexpr std::uint64_t kHour = 3'600 * kSecond;
constexpr std::uint64_t kMillion = 1'000'000;

constexpr std::array kLaterSettings{
    LaterSetting{"upstreams", "is not available in this build: remove it; there is no fallback yet."},
    LaterSetting{"models.gpu_memory_utilization",
                 "is for GPUs, which this build does not have: use kv_cache_memory_bytes."},
    LaterSetting{"models.tensor_parallel_size",
                 "above 1 is not available in this build: remove it; a model runs on one device."},
    LaterSetting{"limits.max_tools", "is not available in this build: there are no tools yet."},
    LaterSetting{"limits.max_auth_failures_per_minute",
                 "is not available in this build: failed keys are not throttled yet."},
    LaterSetting{"limits.memory", "is not available in this build: memory is not watched yet."},
};

class NameSeeker final : public SettingVisitor {
 public:
  explicit NameSeeker(std::string_view wanted) : wanted_(wanted) {}
  bool found() const { return found_; }

  void listen_address(std::string_view name, ListenAddress&) override { see(name); }
  void path(std::string_view name, std::filesystem::path&) override { see(name); }
  void text(std::string_view name, std::string&) override { see(name); }
  void boolean(std::string_view name, bool&) override { see(name); }
  void audit_mode(std::string_view name, AuditMode&) override { see(name); }
  void duration(std::string_view name, Milliseconds&, Range) override { see(name); }
  void size(std::string_view name, std::size_t&, Range) override { see(name); }
  void optional_size(std::string_view name, std::optional<std::size_t>&, Range) override {
    see(name);
  }
  void count(std::string_view name, std::uint32_t&, Range) override { see(name); }
  void optional_count(std::string_view name, std::optional<std::uint32_t>&, Range) override {
    see(name);
  }

 private:
  void see(std::string_view name) { found_ = found_ || name == wanted_; }

  std::string_view wanted_;
  bool found_ = false;
};

}  // namespace

void visit_settings(ServerConfig& server, SettingVisitor& visitor) {
  visitor.listen_address("listen", server.listen);
  visitor.listen_address("admin_listen", server.admin_listen);
  visitor.path("tls_cert", server.tls_cert);
  visitor.path("tls_key", server.tls_key);
  visitor.boolean("allow_plaintext", server.allow_plaintext);
  visitor.path("state_dir", server.state_dir);
  visitor.path("admin_key_file", server.admin_key_file);
  visitor.duration("drain_delay", server.drain_delay, {0, kHour});
  visitor.duration("drain_timeout", server.drain_timeout, {0, kHour});
}

void visit_settings(PolicyPaths& policy, SettingVisitor& visitor) {
  visitor.path("file", policy.file);
  visitor.path("keys", policy.keys);
  visitor.path("pepper", policy.pepper);
}

void visit_settings(AuditConfig& audit, SettingVisitor& visitor) {
  visitor.audit_mode("mode", audit.mode);
}

void visit_settings(ModelConfig& model, SettingVisitor& visitor) {
  visitor.text("name", model.name);
  visitor.path("path", model.path);
  visitor.optional_count("max_model_len", model.max_model_len, {1, kMillion});
  visitor.count("max_num_seqs", model.max_num_seqs, {1, 4'096});
  visitor.count("max_num_batched_tokens", model.max_num_batched_tokens, {1, 65'536});
  visitor.optional_size("kv_cache_memory_bytes", model.kv_cache_memory_bytes,
                        {kMiB, 4'096 * kGiB});
  visitor.text("kv_cache_dtype", model.kv_cache_dtype);
  visitor.boolean("enable_prefix_caching", model.enable_prefix_caching);
  visitor.boolean("enable_chunked_prefill", model.enable_chunked_prefill);
  visitor.text("speculative_config", model.speculative_config);
  visitor.text("device", model.device);
  visitor.count("threads", model.threads, {0, 1'024});
  visitor.text("kernels", model.kernels);
  visitor.text("numerics", model.numerics);
}

void visit_settings(LimitsConfig& limits, SettingVisitor& visitor) {
  // The upper bounds of the wire are those under which the HTTP parser was shown to be safe.
  visitor.size("read_buffer", limits.read_buffer_bytes, {16 * kKiB, 64 * kKiB});
  visitor.size("max_headers", limits.max_header_bytes, {kKiB, 32 * kKiB});
  visitor.size("max_header_field", limits.max_header_field_bytes, {256, 16 * kKiB});
  visitor.count("max_header_count", limits.max_header_count, {8, 128});
  visitor.size("max_target", limits.max_target_bytes, {64, 8 * kKiB});
  visitor.count("max_body_chunks", limits.max_body_chunks, {1, kMillion});
  visitor.size("max_body", limits.max_body_bytes, {kKiB, 32 * kMiB});
  visitor.size("max_team_inflight_body", limits.max_team_inflight_body_bytes, {kKiB, 64 * kGiB});
  visitor.size("max_inflight_body", limits.max_inflight_body_bytes, {kKiB, 64 * kGiB});
  visitor.count("max_json_depth", limits.max_json_depth, {4, 256});
  visitor.count("max_json_keys", limits.max_json_keys, {64, kMillion});
  visitor.count("max_messages", limits.max_messages, {1, kMillion});
  visitor.size("max_prompt", limits.max_prompt_bytes, {kKiB, 32 * kMiB});

  visitor.count("max_connections", limits.max_connections, {0, kMillion});
  visitor.count("max_connections_per_address", limits.max_connections_per_address, {0, kMillion});
  visitor.count("max_handshakes", limits.max_handshakes, {1, kMillion});
  visitor.count("max_requests_per_connection", limits.max_requests_per_connection, {0, kMillion});
  visitor.duration("handshake_timeout", limits.handshake_timeout, {1, kHour});
  visitor.duration("header_timeout", limits.header_timeout, {1, kHour});
  visitor.duration("body_timeout", limits.body_timeout, {1, kHour});
  visitor.size("body_rate", limits.body_bytes_per_second, {kKiB, kGiB});
  visitor.duration("write_stall_timeout", limits.write_stall_timeout, {1, kHour});
  visitor.duration("request_timeout", limits.request_timeout, {1, 24 * kHour});
  visitor.duration("keep_alive_timeout", limits.keep_alive_timeout, {1, kHour});
  visitor.duration("accept_error_wait", limits.accept_error_wait, {1, 60 * kSecond});
  visitor.size("refused_body", limits.refused_body_bytes, {0, 32 * kMiB});
  visitor.duration("refused_body_timeout", limits.refused_body_timeout, {0, kHour});

  visitor.size("send_buffer", limits.send_buffer_bytes, {4 * kKiB, 16 * kMiB});
  visitor.size("stream_soft", limits.stream_soft_bytes, {kKiB, 16 * kMiB});
  visitor.duration("stream_soft_time", limits.stream_soft_time, {1, kHour});
  visitor.size("stream_hard", limits.stream_hard_bytes, {kKiB, 64 * kMiB});
  visitor.duration("stream_wait_comment", limits.stream_wait_comment, {kSecond, kHour});
}

std::span<const LaterSetting> later_settings() { return kLaterSettings; }

std::string_view home_of_setting(std::string_view name) {
  Config any;
  const auto has = [name](auto& section) {
    NameSeeker seeker(name);
    visit_settings(section, seeker);
    return seeker.found();
  };
  if (has(any.server)) return "[server]";
  if (has(any.policy)) return "[policy]";
  if (has(any.audit)) return "[audit]";
  if (has(any.models.emplace_back())) return "[[models]]";
  if (has(any.limits)) return "[limits]";
  return {};
}

}  // namespace turnstile::gateway
