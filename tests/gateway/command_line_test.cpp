#include "gateway/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace turnstile::gateway {
namespace {

template <typename Options>
Options good(std::vector<std::string> arguments) {
  const auto command = parse_command_line(std::move(arguments));
  EXPECT_TRUE(command) << (command ? "" : command.error().text);
  if (!command || !std::holds_alternative<Options>(*command)) {
    ADD_FAILURE() << "another verb";
    return {};
  }
  return std::get<Options>(*command);
}

std::string value_of(const CommandLineOverrides& overrides, std::string_view key) {
  const auto found = std::ranges::find(overrides, key, &Override::key);
  return found == overrides.end() ? "absent" : found->value;
}

TEST(CommandLine, EachVerbIsRead) {
  const auto init = good<InitOptions>({"init", "dir", "--model", "a.gguf"});
  EXPECT_EQ(init.folder, "dir");
  EXPECT_EQ(init.model, "a.gguf");
  EXPECT_FALSE(good<InitOptions>({"init", "dir"}).model);
  EXPECT_EQ(good<PolicyCheckOptions>({"policy", "check", "p.toml"}).file, "p.toml");
  const auto create = good<KeysCreateOptions>({"keys", "create", "--team", "lab", "--id", "anna",
                                               "--max-class", "batch", "--expires", "never"});
  EXPECT_EQ(create.team, "lab");
  EXPECT_EQ(create.id, "anna");
  EXPECT_EQ(create.max_class, "batch");
  EXPECT_EQ(create.expires, "never");
  EXPECT_EQ(good<KeysListOptions>({"keys", "list", "--config", "c.toml"}).config, "c.toml");
  const auto revoke = good<KeysRevokeOptions>({"keys", "revoke", "anna", "--now"});
  EXPECT_EQ(revoke.id, "anna");
  EXPECT_TRUE(revoke.now);
  EXPECT_EQ(good<AuditVerifyOptions>({"audit", "verify", "state"}).folder, "state");
  const auto show = good<AuditShowOptions>({"audit", "show", "--request", "r", "--team", "t",
                                            "--code", "c", "--from", "24h"});
  EXPECT_EQ(show.request, "r");
  EXPECT_EQ(show.team, "t");
  EXPECT_EQ(show.code, "c");
  EXPECT_EQ(show.from, "24h");
  EXPECT_EQ(good<ModelInfoOptions>({"model", "info", "a.gguf"}).file, "a.gguf");
  good<VersionOptions>({"version"});
}

TEST(CommandLine, AVllmServeLineCarriesOver) {
  const auto serve = good<ServeOptions>(
      {"serve", "m.gguf", "--host", "0.0.0.0", "--port", "9000", "--served-model-name", "chat",
       "--max-model-len", "4096", "--max-num-seqs", "16", "--max-num-batched-tokens", "1024",
       "--gpu-memory-utilization", "0.9", "--kv-cache-memory-bytes", "1GiB",
       "--no-enable-prefix-caching", "--enable-chunked-prefill", "--tensor-parallel-size", "1"});
  EXPECT_EQ(value_of(serve.overrides, "models.path"), "m.gguf");
  EXPECT_EQ(value_of(serve.overrides, "server.host"), "0.0.0.0");
  EXPECT_EQ(value_of(serve.overrides, "server.port"), "9000");
  EXPECT_EQ(value_of(serve.overrides, "models.name"), "chat");
  EXPECT_EQ(value_of(serve.overrides, "models.max_model_len"), "4096");
  EXPECT_EQ(value_of(serve.overrides, "models.enable_prefix_caching"), "false");
  EXPECT_EQ(value_of(serve.overrides, "models.enable_chunked_prefill"), "true");
  EXPECT_FALSE(serve.check);
}

TEST(CommandLine, TurnstilesOwnServeFlags) {
  const auto serve = good<ServeOptions>({"serve", "--config", "c.toml", "--check", "--policy", "p",
                                         "--keys", "k", "--listen", "127.0.0.1:0",
                                         "--admin-listen=unix:a", "--state-dir", "s"});
  EXPECT_TRUE(serve.check);
  EXPECT_EQ(serve.config, "c.toml");
  EXPECT_EQ(value_of(serve.overrides, "policy.file"), "p");
  EXPECT_EQ(value_of(serve.overrides, "policy.keys"), "k");
  EXPECT_EQ(value_of(serve.overrides, "server.listen"), "127.0.0.1:0");
  EXPECT_EQ(value_of(serve.overrides, "server.admin_listen"), "unix:a");
  EXPECT_EQ(value_of(serve.overrides, "server.state_dir"), "s");
  EXPECT_EQ(value_of(serve.overrides, "models.path"), "absent");
}

TEST(CommandLine, WrongUsageIsOneSentenceThatNamesTheRemedy) {
  const std::vector<std::vector<std::string>> table{
      {},
      {"frobnicate"},
      {"serve", "--nope"},
      {"serve", "a", "b"},
      {"init"},
      {"keys"},
      {"keys", "create", "--team", "lab"},
      {"keys", "create", "--id", "x"},
      {"keys", "revoke"},
      {"audit"},
      {"audit", "verify"},
      {"policy", "check"},
      {"model", "info"},
      {"--config", "c.toml", "serve"},
  };
  for (const auto& arguments : table) {
    const auto command = parse_command_line(arguments);
    ASSERT_FALSE(command) << arguments.size();
    EXPECT_EQ(command.error().code, ExitCode::WrongUsage);
    const std::string& text = command.error().text;
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_NE(text.find("--help"), std::string::npos) << text;
  }
}

TEST(CommandLine, AnUnknownVerbIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{"usage"}, "turnstile: there is no verb 'usage'; 'turnstile --help'"},
      {{"serv", "m.gguf"}, "turnstile: there is no verb 'serv'; perhaps 'serve' was meant; "},
      {{"keys", "rotate", "x"}, "turnstile: there is no verb 'keys rotate'"},
      {{"keys", "rotate", "--help"}, "turnstile: there is no verb 'keys rotate'"},
      {{"policy", "replay"}, "turnstile: there is no verb 'policy replay'"},
      {{"a\x1b[2J"}, "turnstile: there is no verb 'a"},
      {{"--config", "c", "serve"}, "turnstile: '--config' stands before the verb"},
      {{"keys", "--config", "c", "list"}, "turnstile: '--config' stands before the verb"},
  };
  for (const auto& [arguments, expected] : table) {
    const auto command = parse_command_line(arguments);
    ASSERT_FALSE(command) << expected;
    EXPECT_EQ(command.error().code, ExitCode::WrongUsage);
    EXPECT_TRUE(command.error().text.starts_with(expected)) << command.error().text;
    EXPECT_EQ(command.error().text.find('\x1b'), std::string::npos);
  }
}

TEST(CommandLine, TheVersionIsAlsoAFlag) {
  const auto command = parse_command_line({"--version"});
  ASSERT_TRUE(command);
  EXPECT_TRUE(std::holds_alternative<VersionOptions>(*command));
}

TEST(CommandLine, HelpIsAnAnswerAndListsTheFlags) {
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--help"}, "serve"},
           {{"serve", "--help"}, "--max-num-batched-tokens"},
           {{"keys", "create", "--help"}, "--expires"},
           {{"init", "-h"}, "--model"}}) {
    const auto command = parse_command_line(arguments);
    ASSERT_FALSE(command);
    EXPECT_EQ(command.error().code, ExitCode::Done);
    EXPECT_NE(command.error().text.find(word), std::string::npos) << command.error().text;
  }
}

}  // namespace
}  // namespace turnstile::gateway
