// command_line.h: the program's arguments as a value.
//
//   turnstile VERB [SUBVERB] ... flags after the verb
//
// Parsing only: nothing is opened or checked here. `serve` takes the engine's settings under vLLM's
// names, so that a `vllm serve` line carries over; each becomes an Override of the setting that it
// stands for.
//
// Errors: wrong usage is one sentence and exit code 2; --help is a text and exit code 0.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/config/config.h"
#include "gateway/exit_code.h"

namespace turnstile::gateway {

struct InitOptions {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> model;
};
struct ServeOptions {
  std::optional<std::filesystem::path> config;
  bool check = false;
  CommandLineOverrides overrides;
};
struct PolicyCheckOptions {
  std::filesystem::path file;
};
struct KeysCreateOptions {
  std::optional<std::filesystem::path> config;
  std::string team;
  std::string id;
  std::optional<std::string> max_class;
  std::optional<std::string> expires;  // a date, or "never"
};
struct KeysListOptions {
  std::optional<std::filesystem::path> config;
};
struct KeysRevokeOptions {
  std::optional<std::filesystem::path> config;
  std::string id;
  bool now = false;
};
struct AuditVerifyOptions {
  std::filesystem::path folder;  // audit folder or state_dir
};
struct AuditShowOptions {
  std::optional<std::filesystem::path> config;
  std::optional<std::string> request;
  std::optional<std::string> team;
  std::optional<std::string> code;
  std::optional<std::string> from;  // a time, or a duration back from now such as "24h"
};
struct ModelInfoOptions {
  std::filesystem::path file;
  std::filesystem::path draft_model;  // empty: none
};
struct VersionOptions {};

using Command =
    std::variant<InitOptions, ServeOptions, PolicyCheckOptions, KeysCreateOptions, KeysListOptions,
                 KeysRevokeOptions, AuditVerifyOptions, AuditShowOptions, ModelInfoOptions,
                 VersionOptions>;

// What to print instead of running a command. Done: for standard output; else for standard error.
struct UsageText {
  ExitCode code = ExitCode::WrongUsage;
  std::string text;
};

// `arguments` without the program's name.
tl::expected<Command, UsageText> parse_command_line(std::vector<std::string> arguments);

}  // namespace turnstile::gateway
