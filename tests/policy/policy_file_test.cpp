// The reader of policies.toml: every error with its place, and the manual as the proof of defaults.
#include "policy/policy_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace turnstile::policy {
namespace {

PolicyFileResult read(std::string_view text) {
  PolicyFileInput input;
  input.text = text;
  input.file_name = "policies.toml";
  input.revision = "r1-00000000";
  return read_policy(input);
}

std::vector<std::string> errors_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const PolicyFileNote& note : read(text).errors) {
    lines.push_back(std::to_string(note.line) + ":" + std::to_string(note.column) + " " +
                    note.message);
  }
  return lines;
}

constexpr std::string_view kOneTeam = "schema = 1\n[depts.main]\n[teams.lab]\ndept = \"main\"\n";

std::string one_team(std::string_view lines) { return std::string(kOneTeam) + std::string(lines); }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PolicyFile, SmallestUsefulFileIsRead) {
  const PolicyFileResult result = read(kOneTeam);
  ASSERT_TRUE(result.policy);
  EXPECT_TRUE(result.errors.empty());
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_EQ(result.policy->revision, "r1-00000000");
  ASSERT_EQ(result.policy->teams.size(), 1u);
  EXPECT_EQ(result.policy->teams[0].rules.queue_requests, 64);
  EXPECT_EQ(result.policy->queue_requests_total, 256);
}

TEST(PolicyFile, EmptyFileIsValidWithAWarning) {
  const PolicyFileResult result = read("");
  ASSERT_TRUE(result.policy);
  EXPECT_EQ(result.policy->classes.size(), 4u);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(format_warning(result.warnings[0]),
            "policies.toml:1:1: warning: the policy has no team, so no key can be used");
}

TEST(PolicyFile, ErrorLineNamesFileLineAndColumn) {
  const PolicyFileResult result = read(one_team("inflihgt = 3\n"));
  EXPECT_FALSE(result.policy);
  ASSERT_EQ(result.errors.size(), 1u);
  EXPECT_EQ(format_error(result.errors[0]),
            "policies.toml:5:1: error: teams.lab.inflihgt is not a known key; did you mean"
            " inflight?");
}

struct Row {
  std::string text;
  std::string error;  // the first one
};

TEST(PolicyFile, EachErrorHasItsPlaceAndSentence) {
  const std::vector<Row> rows = {
      {"schema = 2", "1:10 schema must be 1, the only one that this version knows"},
      {"schema = \"1\"", "1:10 schema must be 1, the only one that this version knows"},
      {"schema = 1\n[team.x]", "2:2 team is not a known key; did you mean teams?"},
      {"schema = 1\nteams = 3", "2:9 teams must be a table"},
      {"schema = 1\n[teams]\nlab = 3", "3:7 teams.lab must be a table"},
      {one_team("weight = 0"), "5:10 teams.lab.weight must be a number from 1 to 10000"},
      {one_team("weight = 1.5"),
       "5:10 teams.lab.weight must be a whole number or a text such as \"40M\""},
      {one_team("inflight = -1"), "5:12 teams.lab.inflight must be a number from 0 to 1000000000"},
      {one_team("inflight = \"2x\""),
       "5:12 teams.lab.inflight must be a whole number or a text such as \"40M\""},
      {one_team("tokens_per_minute = \"11G\""),
       "5:21 teams.lab.tokens_per_minute must be a number from 0 to 10000000000"},
      {one_team("cached_weight = 1.5"),
       "5:17 teams.lab.cached_weight must be a number from 0 to 1"},
      {one_team("bucket_fraction = 0"),
       "5:19 teams.lab.bucket_fraction must be a number from 0.001 to 1"},
      {one_team("bucket_fraction = nan"),
       "5:19 teams.lab.bucket_fraction must be a number from 0.001 to 1"},
      {one_team("charge = \"post\""),
       "5:10 teams.lab.charge must be \"max\", \"live\" or \"hard\""},
      {one_team("charge = \"lve\""),
       "5:10 teams.lab.charge must be \"max\", \"live\" or \"hard\"; did you mean \"live\"?"},
      {one_team("max_class = \"interactiv\""),
       "5:13 teams.lab.max_class names a class that does not exist; did you mean \"interactive\"?"},
      {one_team("models = \"chat\""), "5:10 teams.lab.models must be a list of texts"},
      {one_team("models = [1]"), "5:11 teams.lab.models must be a list of texts"},
      {one_team("models = []"),
       "3:8 teams.lab can use no model: the lists of the team and of its department have none in"
       " common"},
      {"[models.a]\nserves = \"x\"\n[models.b]\nserves = \"x\"\n[depts.main]\nmodels = [\"a\"]\n"
       "[teams.lab]\ndept = \"main\"\nmodels = [\"b\"]",
       "7:8 teams.lab can use no model: the lists of the team and of its department (line 6) have"
       " none in common"},
      {one_team("disabled = 1"), "5:12 teams.lab.disabled must be true or false; did you mean true?"},
      {one_team("max_output_tokens = 0"),
       "5:21 teams.lab.max_output_tokens must be a number from 1 to 1000000000"},
      {"schema = 1\n[depts.main]\n[teams.lab]\n",
       "3:8 teams.lab needs dept = \"main\", its department"},
      {"schema = 1\n[depts.main]\n[teams.lab]\ndept = \"mian\"\n",
       "4:8 teams.lab.dept names a department without a [depts.*] table; did you mean \"main\"?"},
      {"schema = 1\n[depts.\"a b\"]",
       "2:8 a department or team name has 1 to 64 letters, digits, '.', '-' and '_'"},
      {"[classes.batch]\nrank = 1",
       "2:8 classes.batch.rank 1 is also the rank of classes.interactive (built in); ranks must be"
       " unique"},
      {"[classes.batch]\nrank = 9\n[classes.demo]\nrank = 9",
       "4:8 classes.demo.rank 9 is also the rank of classes.batch (line 2); ranks must be unique"},
      {"[classes.night]\nqueue_ttl = \"1s\"",
       "1:10 classes.night is not a built-in class and needs a rank"},
      {"[classes.\"a.b\"]\nrank = 7",
       "1:10 a class name has 1 to 32 letters, digits, '-' and '_'"},
      {"[classes.demo]\nqueue_ttl = 10",
       "2:13 classes.demo.queue_ttl must be a duration such as \"800ms\", \"2s\", \"10m\" or"
       " \"24h\"; did you mean \"10s\"?"},
      {"[classes.demo]\nqueue_ttl = \"0s\"",
       "2:13 classes.demo.queue_ttl must be a duration from 1ms to 168h"},
      {"[classes.demo]\nprefill_timeout = \"5s\"",
       "2:19 classes.demo.prefill_timeout must be a table"},
      {"[classes.demo]\nprefill_timeout = { bas = \"5s\" }",
       "2:21 classes.demo.prefill_timeout.bas is not a known key; did you mean base?"},
      {"[classes.demo]\nprefill_timeout = { slack = 0 }",
       "2:29 classes.demo.prefill_timeout.slack must be a number from 0.001 to 100"},
      {"[classes.demo]\ndecode_timeout = { stall = \"8d\" }",
       "2:28 classes.demo.decode_timeout.stall must be a duration such as \"800ms\", \"2s\","
       " \"10m\" or \"24h\""},
      {"[classes.demo]\nttft = \"2s\"\nqueue_ttl = \"2500ms\"",
       "3:13 classes.demo.queue_ttl 2500ms exceeds its ttft 2s (line 2); shorten it or write"
       " allow_late = true"},
      {"[classes.interactive]\nwatermark = 0.7\n[classes.standard]\nwatermark = 0.75\n"
       "[classes.batch]\nwatermark = 0.5",
       "4:13 classes.standard.watermark 0.75 exceeds classes.interactive.watermark 0.7 (line 2);"
       " watermarks must not rise with rank"},
      {"[classes.demo]\nwatermark = 0",
       "2:13 classes.demo.watermark must be a number from 0.000001 to 1"},
      {"[classes.demo]\nfloor = 0.25\n[classes.batch]\nfloor = 0.25",
       "4:9 the floors of all classes add up to 0.6 (with line 2), 0.1 of it not written; at most"
       " 0.5 can be promised"},
      {"[classes.interactive]\nwatermark = 0.7\n[classes.standard]\nwatermark = 0.6\n"
       "[classes.own]\nrank = 9\nwatermark = 0.85\n[classes.batch]\nwatermark = 0.5",
       "7:13 classes.own.watermark 0.85 exceeds classes.batch.watermark 0.5 (line 9); watermarks"
       " must not rise with rank"},
      {"[classes.own]\nrank = 9\nwatermark = 0.85",
       "3:13 classes.own.watermark 0.85 exceeds classes.batch.watermark 0.8 (built in); watermarks"
       " must not rise with rank"},
      {"[classes.demo]\nfloor = 0.6", "2:9 classes.demo.floor must be a number from 0 to 0.5"},
      {"[classes.demo]\nlength_quantile = 0.4",
       "2:19 classes.demo.length_quantile must be a number from 0.5 to 1"},
      {"[classes.demo]\norder = \"edg\"",
       "2:9 classes.demo.order must be \"fifo\", \"edf\" or \"lifo-when-standing\"; did you mean"
       " \"edf\"?"},
      {"[classes.demo]\nallow_late = \"yes\"",
       "2:14 classes.demo.allow_late must be true or false; did you mean true?"},
      {"[classes.demo]\ninherit = \"interactiv\"",
       "2:11 classes.demo.inherit names a class that does not exist; did you mean"
       " \"interactive\"?"},
      {"[classes.demo]\ninherit = \"batch\"\n[classes.batch]\ninherit = \"demo\"",
       "4:11 classes.batch.inherit closes a circle through line 1"},
      {"[classes.demo]\ninherit = \"demo\"",
       "2:11 classes.demo.inherit closes a circle through line 1"},
      {"[classes.a]\nrank = 10\ninherit = \"b\"\n[classes.b]\nrank = 11\ninherit = \"c\"\n"
       "[classes.c]\nrank = 12\ninherit = \"d\"\n[classes.d]\nrank = 13\ninherit = \"e\"\n"
       "[classes.e]\nrank = 14\ninherit = \"batch\"",
       "15:11 classes.e.inherit is the fifth in a row; at most 4 are followed"},
      {one_team("budget_floor = 0.2"), "5:16 teams.lab.budget_floor must be a table"},
      {one_team("budget_floor = { dmo = 0.2 }"),
       "5:18 teams.lab.budget_floor.dmo names a class that does not exist; did you mean \"demo\"?"},
      {one_team("budget_floor = { demo = 1.2 }"),
       "5:25 teams.lab.budget_floor.demo must be a number from 0 to 1"},
      {one_team("inflight_by_class = { batch = -1 }"),
       "5:31 teams.lab.inflight_by_class.batch must be a number from 0 to 1000000000"},
      {"[defaults]\nlocality_slack = -1",
       "2:18 defaults.locality_slack must be a number from 0 to 1000000000"},
      {one_team("queue_tokens = \"many\""),
       "5:16 teams.lab.queue_tokens must be a whole number or a text such as \"40M\""},
      {"[models.chat]", "1:9 models.chat needs serves = \"NAME\", the name of an engine"},
      {"[models.\"a b\"]\nserves = \"x\"",
       "1:9 a model name has 1 to 128 letters, digits, '.', '-', '_', '/', ':', '@', '+'"},
      {"[models.chat]\nserves = \"x\"\n[depts.main]\nmodels = [\"caht\"]",
       "4:11 depts.main.models names a model that does not exist; did you mean \"chat\"?"},
      {"a = [", "1:6 "},
      {"schema = 1\nschema = 1", "2:"},
      {"[depts.main]\n[depts.main]", "2:"},
      {"x = \"\xff\"", "1:"},
  };
  for (const Row& row : rows) {
    const auto errors = errors_of(row.text);
    ASSERT_FALSE(errors.empty()) << row.text;
    EXPECT_EQ(errors[0].substr(0, row.error.size()), row.error) << row.text;
    if (row.error.back() != ' ' && row.error.back() != ':') {
      EXPECT_EQ(errors[0], row.error) << row.text;
    }
    EXPECT_EQ(errors.size(), 1u) << row.text;
  }
}

TEST(PolicyFile, WhatIsWrittenTwiceNamesTheFirstLine) {
  for (const auto& [text, line] :
       {std::pair{"schema = 1\n\nschema = 1", "(line 1)"},
        std::pair{"[depts.main]\n\n[depts.main]", "(line 1)"},
        std::pair{"[depts.main]\n weight = 1\nweight = 2", "(line 2)"}}) {
    const auto errors = errors_of(text);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_TRUE(errors[0].ends_with(line)) << errors[0];
  }
}

// A limit that is accepted and ignored would be worse than none.
TEST(PolicyFile, KeysOfALaterVersionAreRefusedByName) {
  struct Later {
    std::string table;
    std::vector<std::string> keys;
  };
  const std::string end = " is not enforced by this version; remove it until a later version does";
  for (const Later& later : {
           Later{"", {"timezone", "schedule", "rule", "raise", "reload"}},
           Later{"defaults", {"tokens_per_day", "expires"}},
           Later{"depts.main",
                 {"tokens_per_day", "tokens_per_week", "tokens_per_month", "expires"}},
           Later{"teams.lab", {"expires"}},
           Later{"models.chat", {"fallback", "fallback_on"}},
       }) {
    for (const std::string& key : later.keys) {
      std::string text = "[depts.x]\n[teams.y]\ndept = \"x\"\n";
      std::string path = key;
      if (!later.table.empty()) {
        text += "[" + later.table + "]\n";
        path = later.table + "." + key;
      } else {
        text.clear();
      }
      if (later.table == "teams.lab") text += "dept = \"x\"\n";
      if (later.table == "models.chat") text += "serves = \"x\"\n";
      text += key + " = 1\n";
      const auto errors = errors_of(text);
      ASSERT_EQ(errors.size(), 1u) << text;
      EXPECT_EQ(errors[0].substr(errors[0].find(' ') + 1), path + end) << text;
    }
  }
}

TEST(PolicyFile, AllErrorsAreReportedInTheOrderOfTheText) {
  const auto errors = errors_of(R"(schema = 3
[teams.lab]
dept = "nowhere"
weight = 0
colour = "red"
[classes.demo]
queue_ttl = "soon"
)");
  ASSERT_EQ(errors.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(errors[i].substr(0, errors[i].find(':')),
              (std::vector<std::string>{"1", "3", "4", "5", "7"})[i]);
  }
}

TEST(PolicyFile, EndlessErrorsAreCutAndCounted) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += "key" + std::to_string(i) + " = 1\n";
  const auto errors = errors_of(text);
  ASSERT_EQ(errors.size(), kMaxPolicyErrors + 1);
  EXPECT_NE(errors.back().find("50 more are not shown"), std::string::npos);
}

TEST(PolicyFile, ValuesArriveInTheirUnits) {
  const PolicyFileResult result = read(R"(
schema = 1
[defaults]
charge = "max"
bucket_fraction = 0.5
weight = 2
inflight = 9
[classes.demo]
queue_ttl = "800ms"
prefill_timeout = { base = "5s", per_1k_uncached = "250ms", slack = 2.5 }
decode_timeout = { stall = "10s", total = "10m" }
queue_requests = "2k"
[classes.night]
rank = 9
[models.zeta]
serves = "qwen"
default_class = "batch"
[models.alpha]
serves = "tiny"
max_class = "night"
max_input_tokens = 100
[depts.physics]
cached_weight = 0.25
[teams.lab]
dept = "physics"
tokens_per_minute = 60_000
weight = 3
models = ["alpha"]
)");
  ASSERT_TRUE(result.policy) << format_error(result.errors[0]);
  const PolicySet& set = *result.policy;
  const Timeouts& demo = set.classes[0].timeouts;
  EXPECT_EQ(demo.queue_ttl, std::chrono::milliseconds(800));
  EXPECT_EQ(demo.prefill_base, std::chrono::seconds(5));
  EXPECT_EQ(demo.prefill_per_1k_uncached, std::chrono::milliseconds(250));
  EXPECT_EQ(demo.prefill_slack_milli, 2500);
  EXPECT_EQ(demo.stall, std::chrono::seconds(10));
  EXPECT_EQ(demo.total, std::chrono::minutes(10));
  EXPECT_EQ(set.classes[0].queue_requests, 2000);
  EXPECT_EQ(set.classes[4].name, "night");
  EXPECT_EQ(set.classes[4].watermark_ppm, 800'000) << "not above the class before it";
  EXPECT_EQ(set.fallback_class, 1u);
  ASSERT_EQ(set.models.size(), 2u);
  EXPECT_EQ(set.models[0].alias, "zeta") << "the order of the file, not of the alphabet";
  EXPECT_EQ(set.models[0].default_class, 3u);
  EXPECT_EQ(set.models[1].max_class, 4u);
  const NodeRules& dept = set.departments[0].rules;
  EXPECT_EQ(dept.charge, Charge::Max);
  EXPECT_EQ(dept.bucket_fraction_ppm, 500'000);
  EXPECT_EQ(dept.cached_weight_milli, 250);
  EXPECT_EQ(dept.weight, 2);
  EXPECT_EQ(dept.inflight, std::nullopt) << "limits in [defaults] are for teams";
  const NodeRules& team = set.teams[0].rules;
  EXPECT_EQ(team.inflight, 9);
  EXPECT_EQ(team.weight, 3);
  EXPECT_EQ(team.tokens_per_minute, 60'000);
  EXPECT_EQ(team.cached_weight_milli, 1000);
  EXPECT_EQ(set.key_defaults.charge, Charge::Max);
  EXPECT_EQ(set.key_defaults.inflight, std::nullopt);
}

TEST(PolicyFile, ClassInheritsEverythingButNameAndRank) {
  const PolicyFileResult result = read(R"(
schema = 1
[classes.night]
inherit = "batch"
rank = 9
queue_ttl = "1h"
[classes.batch]
inherit = "interactive"
max_output_tokens = 100
[classes.interactive]
queue_ttl = "5s"
order = "edf"
queue_tokens = "2k"
)");
  for (const auto& note : result.errors) ADD_FAILURE() << format_error(note);
  ASSERT_TRUE(result.policy);
  const auto& classes = result.policy->classes;
  ASSERT_EQ(classes.size(), 5u);
  const ClassRules& batch = classes[3];
  EXPECT_EQ(batch.name, "batch");
  EXPECT_EQ(batch.rank, 3);
  EXPECT_EQ(batch.timeouts.queue_ttl, std::chrono::seconds(5));
  EXPECT_EQ(batch.ttft, std::chrono::seconds(5)) << "it follows queue_ttl";
  EXPECT_EQ(batch.order, LeafOrder::Edf);
  EXPECT_EQ(batch.queue_tokens, 2000);
  const ClassRules& night = classes[4];
  EXPECT_EQ(night.max_output_tokens, 100);
  EXPECT_EQ(night.order, LeafOrder::Edf);
  EXPECT_EQ(night.timeouts.queue_ttl, std::chrono::hours(1));
  EXPECT_EQ(night.ttft, std::chrono::hours(1));
}

TEST(PolicyFile, ValuesByClassArrive) {
  const PolicyFileResult result = read(R"(
[defaults]
inflight_by_class = { batch = 4 }
[depts.main]
[teams.lab]
dept = "main"
budget_floor = { demo = 0.2, interactive = 0.1 }
[teams.lib]
dept = "main"
inflight_by_class = { standard = 2 }
)");
  ASSERT_TRUE(result.policy);
  const NodeRules& lab = result.policy->teams[0].rules;
  EXPECT_EQ(lab.inflight_by_class, (std::vector<ClassValue>{{3, 4}}));
  EXPECT_EQ(budget_floor_ppm(lab, 0), 0);
  EXPECT_EQ(budget_floor_ppm(lab, 1), 200'000);
  EXPECT_EQ(budget_floor_ppm(lab, 3), 200'000) << "the largest of those above";
  EXPECT_EQ(result.policy->teams[1].rules.inflight_by_class, (std::vector<ClassValue>{{2, 2}}));
  EXPECT_TRUE(result.policy->departments[0].rules.inflight_by_class.empty());
}

TEST(PolicyFile, ServesIsCheckedWhenTheEnginesAreKnown) {
  PolicyFileInput input;
  input.text = "[models.chat]\nserves = \"big\"\n";
  input.file_name = "p";
  input.engine_models = {"small"};
  const PolicyFileResult result = read_policy(input);
  ASSERT_EQ(result.errors.size(), 1u);
  EXPECT_EQ(result.errors[0].line, 2);
  EXPECT_EQ(result.errors[0].message, "models.chat.serves names no engine of turnstile.toml");
  input.text = "[models.chat]\nserves = \"smal\"\n";
  EXPECT_EQ(read_policy(input).errors[0].message,
            "models.chat.serves names no engine of turnstile.toml; did you mean \"small\"?");
}

TEST(PolicyFile, BudgetSmallerThanItsOwnLimitsAllowIsAWarning) {
  const PolicyFileResult result =
      read(one_team("tokens_per_minute = 1000\nmax_input_tokens = 400\n"));
  ASSERT_TRUE(result.policy);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(result.warnings[0].line, 3);
  EXPECT_NE(result.warnings[0].message.find("holds 250 tokens"), std::string::npos);
}

TEST(PolicyFile, HugeFileIsRefusedUnread) {
  const std::string text(kMaxPolicyFileBytes + 1, '#');
  EXPECT_EQ(errors_of(text).size(), 1u);
}

// The TOML library recurses once per part; `policy check` of such a file overflowed the stack. The
// last text hides the key behind the end of a string of several lines.
TEST(PolicyFile, KeysOfVeryManyPartsAreRefusedUnread) {
  std::string parts = "a";
  for (int i = 0; i < 100'000; ++i) parts += ".a";
  for (const auto& [text, line] : {std::pair{parts + " = 1\n", 1}, std::pair{"[" + parts + "]\n", 1},
                                   std::pair{"a = {b = \"\"\"\n\"\"\", " + parts + " = 1}\n", 2}}) {
    const PolicyFileResult result = read_policy({.text = text, .file_name = "p.toml"});
    ASSERT_EQ(result.errors.size(), 1U);
    EXPECT_EQ(result.errors[0].line, line);
    EXPECT_NE(result.errors[0].message.find("more than 16 parts"), std::string::npos);
  }
}

// The manual in the root of the tree: it is read without a note, and what it shows as defaults are
// the defaults.
TEST(PolicyFile, ExampleFileShowsTheDefaults) {
  const std::string text = read_file(TURNSTILE_SOURCE_ROOT "/policies.example.toml");
  ASSERT_FALSE(text.empty());
  const PolicyFileResult example = read(text);
  for (const auto& note : example.errors) ADD_FAILURE() << format_error(note);
  for (const auto& note : example.warnings) ADD_FAILURE() << format_warning(note);
  ASSERT_TRUE(example.policy);
  const PolicyFileResult bare = read("schema = 1\n[depts.main]\n[teams.lab]\ndept = \"main\"\n");
  const PolicySet& shown = *example.policy;
  const PolicySet& meant = *bare.policy;
  EXPECT_EQ(shown.departments[0].rules, meant.departments[0].rules);
  EXPECT_EQ(shown.teams[0].rules, meant.teams[0].rules);
  EXPECT_EQ(shown.key_defaults, meant.key_defaults);
  EXPECT_EQ(shown.queue_requests_total, meant.queue_requests_total);
  EXPECT_EQ(shown.fallback_class, meant.fallback_class);
  ASSERT_EQ(shown.classes.size(), meant.classes.size());
  for (std::size_t i = 0; i < shown.classes.size(); ++i) {
    EXPECT_EQ(shown.classes[i], meant.classes[i]) << shown.classes[i].name;
  }
}

// Every key of the manual, written out: the commented lines are valid too, so the manual cannot
// name a key that the reader does not know.
TEST(PolicyFile, CommentedLinesOfTheExampleAreValidToo) {
  std::stringstream lines(read_file(TURNSTILE_SOURCE_ROOT "/policies.example.toml"));
  std::string text;
  std::vector<std::string> uncommented;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    const bool setting = line.rfind("# ", 0) == 0 && equals != std::string::npos &&
                         line.find(' ', 2) == equals;
    if (setting) uncommented.push_back(line.substr(2, equals - 2));
    text += setting ? line.substr(2) : line;
    text += '\n';
  }
  const PolicyFileResult result = read(text);
  for (const auto& note : result.errors) ADD_FAILURE() << format_error(note);
  EXPECT_EQ(uncommented.size(), 20u) << "settings without a default in the manual";
}

}  // namespace
}  // namespace turnstile::policy
