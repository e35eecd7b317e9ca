#include "gateway/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <sstream>
#include <string_view>

#include "gateway/config/suggestion.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

struct SettingFlag {
  const char* flag;
  const char* key;
  const char* help;
};

// Defaults are shown by `serve --check`, which also says where each value comes from.
constexpr std::array kServeFlags{
    SettingFlag{"--policy", "policy.file", "Policy file (policies.toml)"},
    SettingFlag{"--keys", "policy.keys", "Key file (keys.toml)"},
    SettingFlag{"--pepper", "policy.pepper", "Pepper file (pepper)"},
    SettingFlag{"--listen", "server.listen", "Public address (127.0.0.1:8000); port 0: a free one"},
    SettingFlag{"--admin-listen", "server.admin_listen",
                "Admin address (127.0.0.1:8001) or unix:PATH"},
    SettingFlag{"--host", "server.host", "Host of --listen"},
    SettingFlag{"--port", "server.port", "Port of --listen"},
    SettingFlag{"--ssl-certfile", "server.tls_cert", "Certificate chain for TLS"},
    SettingFlag{"--ssl-keyfile", "server.tls_key", "Private key for TLS"},
    SettingFlag{"--state-dir", "server.state_dir", "Folder of audit log and records (state)"},
    SettingFlag{"--served-model-name", "models.name", "Name of the model (the file's stem)"},
    SettingFlag{"--max-model-len", "models.max_model_len",
                "Tokens of prompt and completion (what model and KV cache allow)"},
    SettingFlag{"--max-num-seqs", "models.max_num_seqs", "Sequences that run at a time (32)"},
    SettingFlag{"--max-num-batched-tokens", "models.max_num_batched_tokens",
                "Tokens computed in one step (512)"},
    SettingFlag{"--kv-cache-memory-bytes", "models.kv_cache_memory_bytes",
                "Size of the KV cache (half of the memory that is left)"},
    SettingFlag{"--kv-cache-dtype", "models.kv_cache_dtype", "auto, f16 or int8 (auto)"},
    SettingFlag{"--gpu-memory-utilization", "models.gpu_memory_utilization",
                "Accepted for vLLM's sake; no effect on a CPU"},
    SettingFlag{"--device", "models.device", "auto or cpu (auto)"},
    SettingFlag{"--threads", "models.threads", "Threads that compute; 0: chosen and printed (0)"},
    SettingFlag{"--speculative-config", "models.speculative_config",
                R"(JSON such as {"method":"ngram","num_speculative_tokens":5} (off))"},
    SettingFlag{"--tensor-parallel-size", "models.tensor_parallel_size", "Only 1 is available"},
};

struct SettingSwitch {
  const char* flag;
  const char* key;
  const char* value;
};

constexpr std::array kServeSwitches{
    SettingSwitch{"--enable-prefix-caching", "models.enable_prefix_caching", "true"},
    SettingSwitch{"--no-enable-prefix-caching", "models.enable_prefix_caching", "false"},
    SettingSwitch{"--enable-chunked-prefill", "models.enable_chunked_prefill", "true"},
    SettingSwitch{"--no-enable-chunked-prefill", "models.enable_chunked_prefill", "false"},
};

// The parser writes into these while it runs; `chosen` is set by the verb that was given.
struct Draft {
  InitOptions init;
  ServeOptions serve;
  PolicyCheckOptions policy_check;
  KeysCreateOptions keys_create;
  KeysListOptions keys_list;
  KeysRevokeOptions keys_revoke;
  AuditVerifyOptions audit_verify;
  AuditShowOptions audit_show;
  ModelInfoOptions model_info;
  std::function<Command()> chosen;
};

void add_config_flag(CLI::App& verb, std::optional<std::filesystem::path>& field) {
  verb.add_option_function<std::string>(
      "--config", [&field](const std::string& text) { field = text; },
      "Configuration (./turnstile.toml, else ./.turnstile/turnstile.toml)");
}

void add_text_flag(CLI::App& verb, const char* flag, std::optional<std::string>& field,
                   const char* help) {
  verb.add_option_function<std::string>(
      flag, [&field](const std::string& text) { field = text; }, help);
}

CLI::App& add_verb(CLI::App& parent, const char* name, const char* help, Draft& draft,
                   std::function<Command()> command) {
  CLI::App* verb = parent.add_subcommand(name, help);
  verb->callback([&draft, command = std::move(command)] { draft.chosen = command; });
  return *verb;
}

void add_init(CLI::App& app, Draft& draft) {
  CLI::App& verb = add_verb(app, "init", "Write a working configuration and one key", draft,
                            [&] { return draft.init; });
  verb.add_option("DIR", draft.init.folder, "Folder to write into")->required();
  verb.add_option_function<std::string>(
      "--model", [&](const std::string& text) { draft.init.model = text; },
      "GGUF file to serve; without it the configuration names none");
}

void add_serve(CLI::App& app, Draft& draft) {
  CLI::App& verb = add_verb(app, "serve", "Serve a model through admission control", draft,
                            [&] { return draft.serve; });
  CommandLineOverrides& overrides = draft.serve.overrides;
  verb.add_option_function<std::string>(
      "MODEL,--model",
      [&](const std::string& text) { overrides.push_back({"MODEL", "models.path", text}); },
      "GGUF file of the model");
  add_config_flag(verb, draft.serve.config);
  verb.add_flag("--check", draft.serve.check,
                "Load and validate everything, print the effective configuration, exit");
  for (const SettingFlag& setting : kServeFlags) {
    verb.add_option_function<std::string>(
        setting.flag,
        [&overrides, setting](const std::string& text) {
          overrides.push_back({setting.flag, setting.key, text});
        },
        setting.help);
  }
  for (const SettingSwitch& setting : kServeSwitches) {
    verb.add_flag_callback(
        setting.flag,
        [&overrides, setting] { overrides.push_back({setting.flag, setting.key, setting.value}); },
        setting.value == std::string_view("true") ? "As vLLM's (on)" : "As vLLM's");
  }
}

void add_policy(CLI::App& app, Draft& draft) {
  CLI::App* group = app.add_subcommand("policy", "Check policy files");
  group->require_subcommand(1);
  CLI::App& check = add_verb(*group, "check", "Report every error and warning of a policy file",
                             draft, [&] { return draft.policy_check; });
  check.add_option("FILE", draft.policy_check.file, "Policy file")->required();
}

void add_keys(CLI::App& app, Draft& draft) {
  CLI::App* group = app.add_subcommand("keys", "Make, list and revoke API keys");
  group->require_subcommand(1);

  CLI::App& create = add_verb(*group, "create", "Make a key; its secret is printed once", draft,
                              [&] { return draft.keys_create; });
  create.add_option("--team", draft.keys_create.team, "Team of the policy")->required();
  create.add_option("--id", draft.keys_create.id, "Name of the key in records")->required();
  add_text_flag(create, "--max-class", draft.keys_create.max_class, "Highest class it may use");
  add_text_flag(create, "--expires", draft.keys_create.expires,
                "Date such as 2027-02-21, or never (180 days from now)");
  add_config_flag(create, draft.keys_create.config);

  CLI::App& list = add_verb(*group, "list", "List keys; secrets are not stored", draft,
                            [&] { return draft.keys_list; });
  add_config_flag(list, draft.keys_list.config);

  CLI::App& revoke = add_verb(*group, "revoke", "End a key; a running server obeys within a second",
                              draft, [&] { return draft.keys_revoke; });
  revoke.add_option("ID", draft.keys_revoke.id, "Name of the key")->required();
  revoke.add_flag("--now", draft.keys_revoke.now, "Also cancel its running requests");
  add_config_flag(revoke, draft.keys_revoke.config);
}

void add_audit(CLI::App& app, Draft& draft) {
  CLI::App* group = app.add_subcommand("audit", "Check and search the audit log");
  group->require_subcommand(1);
  CLI::App& verify = add_verb(*group, "verify", "Check order, hashes and chain of an audit log",
                              draft, [&] { return draft.audit_verify; });
  verify.add_option("DIR", draft.audit_verify.folder, "Audit folder or state_dir")->required();

  CLI::App& show = add_verb(*group, "show", "Print the records that match all given flags", draft,
                            [&] { return draft.audit_show; });
  add_text_flag(show, "--request", draft.audit_show.request, "Request id");
  add_text_flag(show, "--team", draft.audit_show.team, "Team");
  add_text_flag(show, "--code", draft.audit_show.code, "Code such as queue_full");
  add_text_flag(show, "--from", draft.audit_show.from,
                "Not before this time: 2026-08-25, an RFC 3339 time, or 24h back from now");
  add_config_flag(show, draft.audit_show.config);
}

void add_rest(CLI::App& app, Draft& draft) {
  CLI::App* group = app.add_subcommand("model", "Look at model files");
  group->require_subcommand(1);
  CLI::App& info = add_verb(*group, "info", "Architecture, tensors, tokenizer, memory of a model",
                            draft, [&] { return draft.model_info; });
  info.add_option("FILE", draft.model_info.file, "GGUF file")->required();
  info.add_option("--draft-model", draft.model_info.draft_model,
                  "GGUF file of a model that would draft for it");

  add_verb(app, "version", "Version, commit, compiler, instruction set, CUDA", draft,
           [] { return VersionOptions{}; });
}

// CLI11's message as one sentence with the remedy.
std::string sentence(std::string message, const CLI::App& app) {
  std::ranges::replace(message, '\n', ' ');
  while (!message.empty() && (message.back() == ' ' || message.back() == '.')) message.pop_back();
  std::string verb = "turnstile";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    verb += " " + at->get_name();
  }
  return "turnstile: " + message + "; '" + verb + " --help' lists what there is.\n";
}

// The first word that should be a verb and is none, as a message; empty when all verbs are known.
// CLI11 would say that a verb is missing, although one was given.
std::string unknown_verb(const std::vector<std::string>& arguments, const CLI::App& app) {
  const CLI::App* at = &app;
  std::string given;
  for (const std::string& word : arguments) {
    if (at->get_require_subcommand_min() == 0 || word == "-h" || word == "--help") return {};
    if (word.starts_with('-')) {
      return "'" + policy::plain_text(word) + "' stands before the verb, and flags come after it";
    }
    std::vector<std::string_view> known;
    const CLI::App* next = nullptr;
    for (const CLI::App* verb : at->get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(verb->get_name());
      if (verb->get_name() == word) next = verb;
    }
    if (next == nullptr) {
      return "there is no verb '" + policy::plain_text(given + word) + "'" +
             suggestion(word, known);
    }
    at = next;
    given += word + " ";
  }
  return {};
}

}  // namespace

tl::expected<Command, UsageText> parse_command_line(std::vector<std::string> arguments) {
  Draft draft;
  CLI::App app("Turnstile: an OpenAI-compatible server with admission control.", "turnstile");
  app.require_subcommand(1);
  add_init(app, draft);
  add_serve(app, draft);
  add_policy(app, draft);
  add_keys(app, draft);
  add_audit(app, draft);
  add_rest(app, draft);
  app.add_flag_callback("--version", [] {}, "As the verb version");
  if (!arguments.empty() && arguments.front() == "--version") return VersionOptions{};
  if (std::string message = unknown_verb(arguments, app); !message.empty()) {
    return tl::unexpected(UsageText{ExitCode::WrongUsage, sentence(std::move(message), app)});
  }

  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return tl::unexpected(UsageText{ExitCode::Done, app.help()});
  } catch (const CLI::ParseError& error) {
    return tl::unexpected(UsageText{ExitCode::WrongUsage, sentence(error.what(), app)});
  }
  return draft.chosen();
}

}  // namespace turnstile::gateway
