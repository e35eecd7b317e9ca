#include "gateway/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gateway/config/quantity.h"
#include "gateway/config/speculative_config.h"
#include "gateway/config/suggestion.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> errors_of(std::string_view text, const CommandLineOverrides& flags = {}) {
  const auto config = read_config(text, "t.toml", flags);
  std::vector<std::string> messages;
  if (!config) {
    for (const ConfigError& error : config.error().errors) messages.push_back(to_string(error));
  }
  return messages;
}

Config good(std::string_view text, const CommandLineOverrides& flags = {}) {
  const auto config = read_config(text, "conf/t.toml", flags);
  EXPECT_TRUE(config) << (config ? "" : to_string(config.error().errors.front()));
  return config.value_or(Config{});
}

const EffectiveSetting& setting(const std::vector<EffectiveSetting>& all, std::string_view key) {
  const auto found = std::ranges::find(all, key, &EffectiveSetting::key);
  EXPECT_NE(found, all.end()) << key;
  return *found;
}

TEST(Config, EmptyFileGivesTheDefaults) {
  const Config config = good("");
  EXPECT_EQ(config.server.listen.text(), "127.0.0.1:8000");
  EXPECT_EQ(config.server.admin_listen.text(), "127.0.0.1:8001");
  EXPECT_EQ(config.server.drain_delay, 5s);
  EXPECT_EQ(config.policy.keys, "conf/keys.toml");
  EXPECT_TRUE(config.models.empty());
  EXPECT_EQ(config.limits.max_body_bytes, 4U << 20);
  EXPECT_EQ(config.limits.max_connections_per_address, 256U);
}

TEST(Config, ReadsEverySectionAndResolvesPathsAgainstTheFile) {
  const Config config = good(R"(
[server]
listen = "[::1]:0"
admin_listen = "unix:admin.sock"
state_dir = "/var/state"
drain_delay = "0s"
[audit]
mode = "async"
[[models]]
path = "m/tiny.gguf"
max_model_len = "2k"
kv_cache_memory_bytes = "64MiB"
kv_cache_dtype = "int8"
enable_prefix_caching = false
[limits]
max_body = 1048576
header_timeout = "800ms"
)");
  EXPECT_EQ(config.server.listen.text(), "[::1]:0");
  EXPECT_TRUE(config.server.listen.is_loopback());
  EXPECT_EQ(config.server.admin_listen.unix_path, "conf/admin.sock");
  EXPECT_EQ(config.server.state_dir, "/var/state");
  ASSERT_EQ(config.models.size(), 1U);
  EXPECT_EQ(config.models[0].path, "conf/m/tiny.gguf");
  EXPECT_EQ(config.models[0].name, "tiny") << "the stem of the file";
  EXPECT_EQ(config.models[0].max_model_len, 2'000U);
  EXPECT_EQ(config.models[0].kv_cache_memory_bytes, std::size_t{64} << 20);
  EXPECT_EQ(config.models[0].kv_cache_dtype, "int8");
  EXPECT_FALSE(config.models[0].enable_prefix_caching);
  EXPECT_EQ(config.limits.max_body_bytes, 1U << 20);
  EXPECT_EQ(config.limits.header_timeout, 800ms);
}

TEST(Config, WithAKeyAndPlaintextAllowedTheAdminListenerMayLeaveLoopback) {
  const Config config = good("[server]\nadmin_listen = \"0.0.0.0:81\"\nadmin_key_file = \"k\"\n"
                             "allow_plaintext = true\n");
  EXPECT_EQ(config.server.admin_listen.text(), "0.0.0.0:81");
}

TEST(Config, FlagsBeatTheFileAndEachSettingKnowsItsOrigin) {
  const Config config = good("[[models]]\npath = \"a.gguf\"\nname = \"a\"\nmax_num_seqs = 8\n",
                             {{"--max-num-seqs", "models.max_num_seqs", "4"},
                              {"--port", "server.port", "9000"},
                              {"--host", "server.host", "::1"}});
  EXPECT_EQ(config.models[0].max_num_seqs, 4U);
  EXPECT_EQ(config.server.listen.text(), "[::1]:9000");
  const auto all = effective(config);
  EXPECT_EQ(setting(all, "models.max_num_seqs").origin, Origin::Flag);
  EXPECT_EQ(setting(all, "models.name").origin, Origin::File);
  EXPECT_EQ(setting(all, "models.name").value, "\"a\"");
  EXPECT_EQ(setting(all, "server.listen").origin, Origin::Flag);
  EXPECT_EQ(setting(all, "limits.max_body").origin, Origin::Default);
  EXPECT_EQ(setting(all, "limits.max_body").value, "\"4MiB\"");
}

// What --check prints can be pasted back: reading it gives the same effective settings.
TEST(Config, EffectiveSettingsReadBackAsThemselves) {
  const Config first = good("[[models]]\npath = \"/a.gguf\"\nmax_model_len = 512\n");
  std::string text;
  std::string section;
  for (const EffectiveSetting& one : effective(first)) {
    const std::size_t dot = one.key.find('.');
    if (one.key.substr(0, dot) != section) {
      section = one.key.substr(0, dot);
      text += section == "models" ? "[[models]]\n" : "[" + section + "]\n";
    }
    text += one.key.substr(dot + 1) + " = " + one.value + "\n";
  }
  const auto second = read_config(text, "t.toml", {});
  ASSERT_TRUE(second) << to_string(second.error().errors.front());
  const auto a = effective(first);
  const auto b = effective(*second);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].value.find("conf/") != std::string::npos) continue;  // the folder of the first file
    EXPECT_EQ(a[i].value, b[i].value) << a[i].key;
  }
}

TEST(Config, AModelFlagNamesTheModelAfterItsFile) {
  const Config config = good("[[models]]\npath = \"a.gguf\"\nname = \"a\"\n",
                             {{"MODEL", "models.path", "/models/b.gguf"}});
  EXPECT_EQ(config.models[0].path, "/models/b.gguf");
  EXPECT_EQ(config.models[0].name, "b");
  const Config named = good("", {{"--served-model-name", "models.name", "x"},
                                 {"MODEL", "models.path", "/models/b.gguf"}});
  EXPECT_EQ(named.models[0].name, "x");
}

struct BadText {
  std::string_view text;
  std::string_view error;  // the beginning of the first one
};

TEST(Config, EachMistakeIsNamedWithItsPlace) {
  const std::vector<BadText> table{
      {"[server]\nlisten = 8000\n", "t.toml:2:10: error: server.listen must be a string"},
      {"[server]\nlisten = \"localhost\"\n", "t.toml:2:10: error: server.listen must be HOST:PORT"},
      {"[server]\nlisten = \"a:99999\"\n", "t.toml:2:10: error: server.listen must be HOST:PORT"},
      {"[server]\nlisten = \"unix:x\"\n", "t.toml:2:10: error: server.listen must be HOST:PORT"},
      {"[server]\nlisten = \"0.0.0.0:80\"\n",
       "t.toml:2:10: error: server.listen is not a loopback address and there is no TLS"},
      {"[server]\nadmin_listen = \"0.0.0.0:81\"\n",
       "t.toml:2:16: error: server.admin_listen is not a loopback"},
      {"[server]\nadmin_listen = \"0.0.0.0:81\"\nallow_plaintext = true\n",
       "t.toml:2:16: error: server.admin_listen is not a loopback address, and /metrics"},
      {"[server]\nadmin_listen = \"0.0.0.0:81\"\nadmin_key_file = \"admin.key\"\n",
       "t.toml:2:16: error: server.admin_listen is not a loopback address and has no TLS"},
      {"[server]\nadmin_listen = \"127.0.0.1:8000\"\n",
       "t.toml:2:16: error: server.admin_listen is the same address"},
      {"[server]\ntls_cert = \"a.pem\"\n", "t.toml:2:12: error: server.tls_cert is set without"},
      {"[server]\ndrain_delay = \"5\"\n", "t.toml:2:15: error: server.drain_delay must be a dur"},
      {"[server]\ndrain_delay = \"25h\"\n", "t.toml:2:15: error: server.drain_delay must be betw"},
      {"[server]\nallow_plaintext = \"yes\"\n",
       "t.toml:2:19: error: server.allow_plaintext must be true or false, without quotes."},
      {"[server]\nlistne = \"a\"\n",
       "t.toml:2:1: error: server.listne is not a setting; perhaps 'listen' was meant."},
      {"[sever]\n", "t.toml:1:2: error: sever is not a section; perhaps 'server' was meant."},
      {"server = 1\n", "t.toml:1:1: error: server must be a table: write [server]."},
      {"[audit]\nmode = \"group\"\n",
       "t.toml:2:8: error: audit.mode \"group\" is not available in this build"},
      {"[audit]\nmode = \"strict\"\n",
       "t.toml:2:8: error: audit.mode \"strict\" is not available in this build"},
      {"[[upstreams]]\nname = \"c\"\n", "t.toml:1:3: error: upstreams is not available"},
      {"[[models]]\npath = \"a\"\n[[models]]\npath = \"b\"\n",
       "t.toml:3:1: error: a second [[models]] entry is not available"},
      {"[models]\npath = \"a\"\n", "t.toml:1:1: error: models must be written as [[models]]."},
      {"[[models]]\nname = \"a\"\n", "t.toml: error: models.path is missing"},
      {"[[models]]\npath = \"a\"\ndevice = \"cuda:0\"\n",
       "t.toml:3:10: error: models.device other than \"auto\" and \"cpu\" is not available"},
      {"[[models]]\npath = \"a\"\ngpu_memory_utilization = 0.9\n",
       "t.toml:3:1: error: models.gpu_memory_utilization is for GPUs"},
      {"[[models]]\npath = \"a\"\nspeculative_config = \"{}\"\n",
       "t.toml:3:22: error: models.speculative_config needs method and num_speculative_tokens."},
      {"[[models]]\npath = \"a\"\nnumerics = \"fst\"\n",
       "t.toml:3:12: error: models.numerics must be \"exact\" or \"fast\"; perhaps 'fast' was"},
      {"[[models]]\npath = \"a\"\nnumeric = \"fast\"\n",
       "t.toml:3:1: error: models.numeric is not a setting; perhaps 'numerics' was meant."},
      {"[[models]]\npath = \"a\"\ntensor_parallel_size = 2\n",
       "t.toml:3:1: error: models.tensor_parallel_size above 1 is not available"},
      {"[[models]]\npath = \"a\"\nmax_num_seqs = 0\n",
       "t.toml:3:16: error: models.max_num_seqs must be between 1 and"},
      {"[[models]]\npath = \"a\"\nmax_num_seqs = -1\n",
       "t.toml:3:16: error: models.max_num_seqs must be between"},
      {"[[models]]\npath = \"a\"\nmax_num_batched_tokens = 8\n",
       "t.toml:3:26: error: models.max_num_batched_tokens must be at least max_num_seqs"},
      {"[[models]]\npath = \"a\"\nmax_model_len = 1024\nenable_chunked_prefill = false\n",
       "t.toml: error: models.max_num_batched_tokens must be at least max_model_len"},
      {"[limits]\nmax_body = \"33MiB\"\n", "t.toml:2:12: error: limits.max_body must be between"},
      {"[limits]\nread_buffer = \"128KiB\"\n", "t.toml:2:15: error: limits.read_buffer must be b"},
      {"[limits]\nmax_headers = \"1KiB\"\n",
       "t.toml: error: limits.max_header_field must not be larger than max_headers (1KiB)."},
      {"[limits]\nmax_tools = 4\n", "t.toml:2:1: error: limits.max_tools is not available"},
      {"[server\n", "t.toml:1:8: error: "},
      {"a = 1\na = 2\n", "t.toml:2:5: error: cannot read this key-value pair: cannot redefine"
                           " existing integer 'a' (line 1)."},
      {"[server]\n[\n", "t.toml:2:2: error: a table header needs a name, as in [NAME]."},
      {"[server]\nlisten = \"a\n", "t.toml:2:12: error: a text is not closed where its line ends."},
      {"[server]\nmax_num_seqs = 4\n",
       "t.toml:2:1: error: server.max_num_seqs does not stand here: it is a setting of [[models]]."},
      {"listen = \"127.0.0.1:1\"\n",
       "t.toml:1:1: error: listen does not stand here: it is a setting of [server]."},
      {"[server]\nlisten = \"127.example.org:80\"\n",
       "t.toml:2:10: error: server.listen is not a loopback address"},
      {"[server]\nstate_dir = \"a\\u0000b\"\n",
       "t.toml:2:13: error: server.state_dir must not hold control characters."},
      {"[server]\nstate_dir = \"\"\n", "t.toml:2:13: error: server.state_dir must not be empty."},
      {"[server]\n\"a\\u001b[2J\" = 1\n",
       "t.toml:2:1: error: server.a\\x1b[2J is not a setting."},
      {"[server]\ndrain_delay = \"5 sec\"\n",
       "t.toml:2:15: error: server.drain_delay must be a duration such as \"800ms\", \"5s\","
       " \"10m\" or \"1h\"; perhaps \"5s\" was meant."},
      {"[[models]]\npath = \"a\"\nkv_cache_memory_bytes = \"4 GB\"\n",
       "t.toml:3:25: error: models.kv_cache_memory_bytes must be a size such as \"64KiB\","
       " \"4MiB\" or a number of bytes; perhaps \"4GiB\" was meant."},
      {"[[models]]\npath = \"a\"\nmax_model_len = \"8K\"\n",
       "t.toml:3:17: error: models.max_model_len must be a whole number such as 64 or \"2k\";"
       " perhaps \"8k\" was meant."},
  };
  for (const BadText& row : table) {
    const auto errors = errors_of(row.text);
    ASSERT_FALSE(errors.empty()) << row.text;
    EXPECT_TRUE(errors.front().starts_with(row.error)) << row.text << "gave " << errors.front();
    EXPECT_EQ(errors.front().back(), '.') << errors.front();
  }
}

TEST(Config, AllErrorsComeAtOnceInTheOrderOfTheText) {
  const auto errors = errors_of(
      "[limits]\nmax_body = true\n[server]\nlisten = 1\nnope = 2\n[audit]\nmode = \"group\"\n");
  ASSERT_EQ(errors.size(), 4U);
  EXPECT_TRUE(errors[0].starts_with("t.toml:2:"));
  EXPECT_TRUE(errors[1].starts_with("t.toml:4:"));
  EXPECT_TRUE(errors[2].starts_with("t.toml:5:"));
  EXPECT_TRUE(errors[3].starts_with("t.toml:7:"));
}

TEST(Config, FlagErrorsNameTheFlag) {
  const CommandLineOverrides flags{
      {"--max-num-seqs", "models.max_num_seqs", "many"},
      {"--port", "server.port", "70000"},
      {"--tensor-parallel-size", "models.tensor_parallel_size", "2"},
      {"MODEL", "models.path", "a.gguf"}};
  EXPECT_EQ(errors_of("", flags),
            (std::vector<std::string>{
                "--max-num-seqs: error: must be a whole number such as 64 or \"2k\".",
                "--port: error: must be a port from 0 to 65535.",
                "--tensor-parallel-size: error: above 1 is not available in this build: remove "
                "it; a model runs on one device."}));
  EXPECT_EQ(errors_of("", {{"--served-model-name", "models.name", "a\x1b[2J"},
                           {"--keys", "policy.keys", "a\nb"}}),
            (std::vector<std::string>{
                "--served-model-name: error: must not hold control characters.",
                "--keys: error: must not hold control characters."}));
  // They stood in every answer, metric and record, which were no UTF-8 either.
  for (const char* bytes : {"a\xff", "\xed\xa0\x80", "\xc0\xaf", "\xe2\x82"}) {
    const std::string socket = std::string("unix:") + bytes;
    EXPECT_EQ(errors_of("", {{"--served-model-name", "models.name", bytes},
                             {"--admin-listen", "server.admin_listen", socket},
                             {"MODEL", "models.path", bytes}}),
              (std::vector<std::string>{"MODEL: error: must be UTF-8.",
                                        "--served-model-name: error: must be UTF-8.",
                                        "--admin-listen: error: must be UTF-8."}));
  }
  EXPECT_EQ(errors_of("", {{"--state-dir", "server.state_dir", ""}}),
            (std::vector<std::string>{"--state-dir: error: server.state_dir must not be empty."}));
  EXPECT_EQ(errors_of("", {{"--speculative-config", "models.speculative_config", "5"},
                           {"MODEL", "models.path", "a.gguf"}}),
            (std::vector<std::string>{
                "--speculative-config: error: models.speculative_config must be a JSON "
                "object such as {\"method\":\"ngram\",\"num_speculative_tokens\":5}."}));
}

// The name stands in every record, whose length is bounded.
TEST(Config, AModelNameIsBounded) {
  const auto errors = [](const std::string& name) {
    return errors_of("", {{"MODEL", "models.path", "m.gguf"},
                          {"--served-model-name", "models.name", name}});
  };
  EXPECT_TRUE(errors("org/Model-1.5:q4@main two").empty());
  EXPECT_TRUE(errors(std::string(128, 'm')).empty());
  const std::vector<std::string> refused{
      "--served-model-name: error: models.name must not be longer than 128 bytes, as in policies."};
  for (const std::size_t bytes : {129, 33'000}) EXPECT_EQ(errors(std::string(bytes, 'm')), refused);
  const auto in_file =
      errors_of("[[models]]\npath = \"m.gguf\"\nname = \"" + std::string(129, 'm') + "\"\n");
  ASSERT_EQ(in_file.size(), 1U);
  EXPECT_TRUE(in_file[0].starts_with("t.toml:3:8: error: models.name must not be")) << in_file[0];
  const auto of_path = [](const std::string& stem, const std::string& name) {
    CommandLineOverrides flags{{"MODEL", "models.path", "folder/" + stem + ".gguf"}};
    if (!name.empty()) flags.push_back({"--served-model-name", "models.name", name});
    return errors_of("", flags);
  };
  EXPECT_TRUE(of_path(std::string(128, 'm'), "").empty());
  EXPECT_TRUE(of_path(std::string(129, 'm'), "short").empty());
  EXPECT_EQ(of_path(std::string(129, 'm'), ""),
            (std::vector<std::string>{
                "MODEL: error: models.path gives the model a name of more than 128 bytes: set "
                "models.name (--served-model-name)."}));
}

TEST(Config, AVllmLineCarriesOverWithAWarningWhereNothingHappens) {
  const Config config = good("", {{"MODEL", "models.path", "a.gguf"},
                                  {"--gpu-memory-utilization", "models.gpu_memory_utilization",
                                   "0.9"},
                                  {"--tensor-parallel-size", "models.tensor_parallel_size", "1"}});
  ASSERT_EQ(config.warnings.size(), 1U);
  EXPECT_TRUE(config.warnings[0].starts_with("--gpu-memory-utilization has no effect"));
}

TEST(SpeculativeConfig, HasTheShapeOfVllm) {
  const auto full = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":4,)"
      R"("prompt_lookup_max":6,"prompt_lookup_min":2})");
  ASSERT_TRUE(full) << full.error();
  EXPECT_EQ(full->limits.num_speculative_tokens, 4U);
  EXPECT_EQ(full->limits.prompt_lookup_min, 2U);
  EXPECT_EQ(full->limits.prompt_lookup_max, 6U);
  const auto none = parse_speculative_config("");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->limits.num_speculative_tokens, 0U) << "off";
  const auto bounds = [](const std::string& fields) {
    const auto read = parse_speculative_config(
        R"({"method":"ngram","num_speculative_tokens":1)" + fields + "}");
    if (!read) return std::pair(0U, 0U);
    return std::pair(read->limits.prompt_lookup_min, read->limits.prompt_lookup_max);
  };
  EXPECT_EQ(bounds(""), std::pair(5U, 5U));
  EXPECT_EQ(bounds(R"(,"prompt_lookup_max":3)"), std::pair(3U, 3U));
  EXPECT_EQ(bounds(R"(,"prompt_lookup_min":2)"), std::pair(2U, 2U));
  EXPECT_EQ(method_name(full->limits), "ngram");
  EXPECT_EQ(method_name(none->limits), "none");
  for (const char* method : {R"("method":"draft_model",)", ""}) {
    const auto draft = parse_speculative_config(
        std::string("{") + method + R"("model":"small.gguf","num_speculative_tokens":3})");
    ASSERT_TRUE(draft) << draft.error();
    EXPECT_EQ(method_name(draft->limits), "draft_model");
    EXPECT_EQ(draft->model, "small.gguf");
    EXPECT_EQ(draft->limits.num_speculative_tokens, 3U);
  }
}

TEST(SpeculativeConfig, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> table[] = {
      {"{", "must be a JSON object"},
      {"[]", "must be a JSON object"},
      {R"({"num_speculative_tokens":1})", "needs method"},
      {R"({"method":"ngram"})", "needs method"},
      {R"({"method":"eagle","num_speculative_tokens":1})", "has a method that is not available"},
      {R"({"method":5,"num_speculative_tokens":1})", "has a method that is not available"},
      {R"({"method":"draft_model","num_speculative_tokens":1})", "needs model, the GGUF file"},
      {R"({"model":5,"num_speculative_tokens":1})", "needs model to be the path"},
      {R"({"model":"","num_speculative_tokens":1})", "needs model to be the path"},
      {R"({"model":"small.gguf\u0000","num_speculative_tokens":1})", "needs model to be the path"},
      {R"({"model":"\u001b[31m","num_speculative_tokens":1})", "needs model to be the path"},
      {R"({"model":"small.gguf"})", "needs method and num_speculative_tokens"},
      {R"({"method":"ngram","model":"small.gguf","num_speculative_tokens":1})",
       "has a model, which only"},
      {R"({"model":"small.gguf","num_speculative_tokens":1,"prompt_lookup_min":2})",
       "has a prompt_lookup bound"},
      {R"({"method":"ngram","num_speculative_tokens":0})", "needs num_speculative_tokens"},
      {R"({"method":"ngram","num_speculative_tokens":17})", "needs num_speculative_tokens"},
      {R"({"method":"ngram","num_speculative_tokens":2.5})", "needs num_speculative_tokens"},
      {R"({"method":"ngram","num_speculative_tokens":-1})", "needs num_speculative_tokens"},
      {R"({"method":"ngram","num_speculative_tokens":1,"prompt_lookup_min":33})",
       "needs prompt_lookup_min"},
      {R"({"method":"ngram","num_speculative_tokens":1,)"
       R"("prompt_lookup_min":4,"prompt_lookup_max":3})",
       "has a prompt_lookup_min above"},
      {R"({"num_speculative_tokens":1,"method":"ngram","num_speculative_tokens":2})",
       "says num_speculative_tokens twice"},
      {R"({"method":"ngram","num_speculative_tokens":1,"temperature":1})",
       "does not know 'temperature'"},
  };
  for (const auto& [text, error] : table) {
    const auto read = parse_speculative_config(text);
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().starts_with(error)) << read.error();
    EXPECT_EQ(read.error().back(), '.') << read.error();
  }
}

// A dotted key of a million parts would overflow toml++'s stack.
TEST(Config, AKeyWithTooManyPartsIsRefusedBeforeParsing) {
  std::string text = "[server]\na";
  for (int i = 0; i < 1'000'000; ++i) text += ".a";
  EXPECT_TRUE(errors_of(text + " = 1\n").front().starts_with("t.toml:2:1: error: a key has more"));
}

TEST(Config, AMissingFileIsTheEnvironmentsFault) {
  const TempFolder folder;
  // A device would be read for ever.
  for (const auto& path : {folder / "none.toml", folder / ".", std::filesystem::path("/dev/zero")}) {
    const auto config = load_config(path, {});
    ASSERT_FALSE(config) << path;
    EXPECT_TRUE(config.error().is_environment) << path;
  }
}

TEST(Quantity, TextsAndValuesAgreeBothWays) {
  EXPECT_EQ(parse_duration("800ms"), 800ms);
  EXPECT_EQ(parse_duration("24h"), 24h);
  for (const char* bad : {"", "5", "s", "-5s", "5 s", "1.5s", "99999999999999999999h", "5sec"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
  EXPECT_EQ(parse_size("64KiB"), 65'536U);
  EXPECT_EQ(parse_size("12"), 12U);
  EXPECT_FALSE(parse_size("64KB"));
  for (const char* text : {"1ms", "1s", "90s", "2h", "0ms"}) {
    EXPECT_EQ(duration_text(*parse_duration(text)), text);
  }
  for (const char* text : {"1B", "64KiB", "1025B", "4MiB", "0B"}) {
    EXPECT_EQ(size_text(*parse_size(text)), text);
  }
}

TEST(Suggestion, NamesTheNearestKnownWordOrNothing) {
  const std::vector<std::string_view> known{"listen", "state_dir", "drain_delay"};
  EXPECT_EQ(suggestion("lisetn", known), "; perhaps 'listen' was meant");
  EXPECT_EQ(suggestion("state-dir", known), "; perhaps 'state_dir' was meant");
  EXPECT_EQ(suggestion("zebra", known), "");
  EXPECT_EQ(suggestion(std::string(5'000, 'x'), known), "");
}

}  // namespace
}  // namespace turnstile::gateway
