// What holds between settings (config_draft.h).
#include <algorithm>
#include <array>
#include <string_view>

#include "gateway/config/config_draft.h"
#include "gateway/config/config_values.h"
#include "gateway/config/quantity.h"
#include "gateway/config/speculative_config.h"
#include "gateway/config/suggestion.h"

namespace turnstile::gateway {
namespace {

// An empty path would be the folder that the program was started in.
void check_paths(ConfigDraft& draft) {
  const auto must_be_there = [&](std::string_view key, const std::filesystem::path& path) {
    if (path.empty()) draft.fail(key, "must not be empty.");
  };
  must_be_there("server.state_dir", draft.config.server.state_dir);
  must_be_there("policy.file", draft.config.policy.file);
  must_be_there("policy.keys", draft.config.policy.keys);
  must_be_there("policy.pepper", draft.config.policy.pepper);
}

void check_server(ConfigDraft& draft) {
  const ServerConfig& server = draft.config.server;
  if (server.tls_cert.empty() != server.tls_key.empty()) {
    const bool has_cert = !server.tls_cert.empty();
    draft.fail(has_cert ? "server.tls_cert" : "server.tls_key",
               has_cert ? "is set without server.tls_key: set both or neither."
                        : "is set without server.tls_cert: set both or neither.");
  }
  if (server.listen.is_unix()) {
    draft.fail("server.listen", "must be HOST:PORT; a unix socket is for admin_listen.");
  } else if (!server.listen.is_loopback() && !server.has_tls() && !server.allow_plaintext) {
    draft.fail("server.listen",
               "is not a loopback address and there is no TLS: keys would cross the network in "
               "the clear. Set tls_cert and tls_key, or write allow_plaintext = true.");
  }
  if (!server.admin_listen.is_loopback() && server.admin_key_file.empty()) {
    draft.fail("server.admin_listen",
               "is not a loopback address, and /metrics names teams to whoever asks: set "
               "admin_key_file, or listen on 127.0.0.1 or unix:PATH.");
  } else if (!server.admin_listen.is_loopback() && !server.allow_plaintext) {
    draft.fail("server.admin_listen",
               "is not a loopback address and has no TLS: the admin key would cross the network in "
               "the clear. Listen on 127.0.0.1 or unix:PATH, or write allow_plaintext = true.");
  }
  if (server.listen.port != 0 && server.listen.text() == server.admin_listen.text()) {
    draft.fail("server.admin_listen", "is the same address as server.listen: choose another port.");
  }
}

void check_models(ConfigDraft& draft) {
  for (const ModelConfig& model : draft.config.models) {
    if (model.name.size() > kMaxModelNameBytes) {
      draft.fail("models.name", "must not be longer than " + std::to_string(kMaxModelNameBytes) +
                                    " bytes, as in policies.");
    }
    if (model.name.empty() && model.path.stem().string().size() > kMaxModelNameBytes) {
      draft.fail("models.path", "gives the model a name of more than " +
                                    std::to_string(kMaxModelNameBytes) +
                                    " bytes: set models.name (--served-model-name).");
    }
    if (model.path.empty()) {
      draft.fail("models.path", "is missing: name the GGUF file of the model.");
    }
    if (model.device != "auto" && model.device != "cpu") {
      draft.fail("models.device",
                 "other than \"auto\" and \"cpu\" is not available in this build: use \"cpu\".");
    }
    constexpr std::array<std::string_view, 3> kDtypes{"auto", "f16", "int8"};
    if (std::find(kDtypes.begin(), kDtypes.end(), model.kv_cache_dtype) == kDtypes.end()) {
      draft.fail("models.kv_cache_dtype", "must be \"auto\", \"f16\" or \"int8\"" +
                                              suggestion(model.kv_cache_dtype, kDtypes) + ".");
    }
    constexpr std::array<std::string_view, 2> kNumerics{"exact", "fast"};
    if (std::find(kNumerics.begin(), kNumerics.end(), model.numerics) == kNumerics.end()) {
      draft.fail("models.numerics",
                 "must be \"exact\" or \"fast\"" + suggestion(model.numerics, kNumerics) + ".");
    }
    if (model.max_num_batched_tokens < model.max_num_seqs) {
      draft.fail("models.max_num_batched_tokens",
                 "must be at least max_num_seqs (" + std::to_string(model.max_num_seqs) +
                     "), or a step could not decode every sequence.");
    }
    if (const auto speculation = parse_speculative_config(model.speculative_config);
        !speculation) {
      draft.fail("models.speculative_config", speculation.error());
    }
    if (!model.enable_chunked_prefill && model.max_model_len &&
        model.max_num_batched_tokens < *model.max_model_len) {
      draft.fail("models.max_num_batched_tokens",
                 "must be at least max_model_len (" + std::to_string(*model.max_model_len) +
                     ") while enable_chunked_prefill is false.");
    }
  }
}

void check_limits(ConfigDraft& draft) {
  const LimitsConfig& limits = draft.config.limits;
  const auto not_above = [&](std::string_view key, std::size_t value, std::string_view other,
                             std::size_t bound) {
    if (value > bound) {
      draft.fail(key, "must not be larger than " + std::string(other) + " (" + size_text(bound) +
                          ").");
    }
  };
  not_above("limits.max_header_field", limits.max_header_field_bytes, "max_headers",
            limits.max_header_bytes);
  not_above("limits.max_target", limits.max_target_bytes, "max_headers", limits.max_header_bytes);
  not_above("limits.max_headers", limits.max_header_bytes, "read_buffer",
            limits.read_buffer_bytes);
  not_above("limits.stream_soft", limits.stream_soft_bytes, "stream_hard",
            limits.stream_hard_bytes);
  not_above("limits.max_body", limits.max_body_bytes, "max_inflight_body",
            limits.max_inflight_body_bytes);
}

}  // namespace

void check(ConfigDraft& draft) {
  check_paths(draft);
  check_server(draft);
  check_models(draft);
  check_limits(draft);
}

}  // namespace turnstile::gateway
