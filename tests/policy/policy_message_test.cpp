// What a message of the reader of policies.toml says beside the error: the other line, and what was
// probably meant.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_file.h"
#include "policy/slips.h"

namespace turnstile::policy {
namespace {

struct MessageRow {
  std::string text;
  std::string note;  // the only one, with its place
};

std::string place_and_message(const PolicyFileNote& note) {
  return std::to_string(note.line) + ":" + std::to_string(note.column) + " " + note.message;
}

PolicyFileResult read_text(std::string_view text) {
  return read_policy({.text = text, .file_name = "p.toml", .revision = "r1-00000000"});
}

void expect_errors(const std::vector<MessageRow>& rows) {
  for (const MessageRow& row : rows) {
    const PolicyFileResult result = read_text(row.text);
    EXPECT_FALSE(result.policy) << row.text;
    ASSERT_EQ(result.errors.size(), 1u) << row.text;
    EXPECT_EQ(place_and_message(result.errors[0]), row.note) << row.text;
  }
}

std::string team_with(std::string_view lines) {
  return "schema = 1\n[depts.main]\n[teams.lab]\ndept = \"main\"\n" + std::string(lines);
}

// What cannot be read is said once, and not compared as if it had not been written.
TEST(PolicyMessage, WhatCannotBeReadIsNotComparedWithOthers) {
  expect_errors({
      {"[classes.x]\nrank = 1000", "2:8 classes.x.rank must be a number from 0 to 999"},
      {"[classes.standard]\nrank = 1000\n[classes.x]\nrank = 2",
       "2:8 classes.standard.rank must be a number from 0 to 999"},
      {"[classes.batch]\nrank = 1000\nwatermark = 1",
       "2:8 classes.batch.rank must be a number from 0 to 999"},
      {"[classes.interactive]\nwatermark = 0.7\n[classes.standard]\nwatermark = 3",
       "4:13 classes.standard.watermark must be a number from 0.000001 to 1; did you mean 0.03?"},
      {"[classes.standard]\nfloor = 3\n[classes.batch]\nfloor = 0.45",
       "2:9 classes.standard.floor must be a number from 0 to 0.5; did you mean 0.03?"},
      {"[classes.demo]\nttft = 2\nqueue_ttl = \"30s\"",
       "2:8 classes.demo.ttft must be a duration such as \"800ms\", \"2s\", \"10m\" or \"24h\"; did"
       " you mean \"2s\"?"},
      {"[classes.demo]\nttft = \"1s\"\nqueue_ttl = 30",
       "3:13 classes.demo.queue_ttl must be a duration such as \"800ms\", \"2s\", \"10m\" or"
       " \"24h\"; did you mean \"30s\"?"},
  });
  // Others are compared all the same.
  const auto both = read_text("[classes.x]\nrank = 1000\n[classes.y]\nrank = 2").errors;
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(place_and_message(both[1]),
            "4:8 classes.y.rank 2 is also the rank of classes.standard (built in); ranks must be"
            " unique");
}

TEST(PolicyMessage, NamesTheOtherLine) {
  expect_errors({
      // The one that is written, and not the built-in one that was lowered to it.
      {"[classes.interactive]\nwatermark = 0.7\n[classes.batch]\nwatermark = 0.8",
       "4:13 classes.batch.watermark 0.8 exceeds classes.interactive.watermark 0.7 (line 2);"
       " watermarks must not rise with rank"},
      {"[classes.demo]\nfloor = 0.2\n[classes.interactive]\nfloor = 0.2\n[classes.standard]\n"
       "floor = 0.1\n[classes.batch]\nfloor = 0.1",
       "8:9 the floors of all classes add up to 0.6 (with lines 2, 4, 6); at most 0.5 can be"
       " promised"},
      {"[classes.batch]\nttft = \"90s\"\nqueue_ttl = \"10m\"",
       "3:13 classes.batch.queue_ttl 10m exceeds its ttft 90s (line 2); shorten it or write"
       " allow_late = true"},
      {team_with("dept = \"main\""),
       "5:8 cannot read this key-value pair: cannot redefine existing string 'dept' (line 4)"},
      // Another table has a key of that name too.
      {"[depts.a]\nweight = 1\n[depts.b]\nweight = 2\nweight = 3",
       "5:10 cannot read this key-value pair: cannot redefine existing integer 'weight' (line 4)"},
      {team_with("[teams.lab]"),
       "5:1 cannot read this table header: cannot redefine existing table 'teams.lab' (line 3)"},
      {team_with("budget_floor = { demo = 0.2, demo = 0.3 }"),
       "5:37 cannot read this key-value pair: cannot redefine existing floating-point 'demo'"
       " (line 5)"},
      {team_with("dept.name = \"main\""),
       "5:1 cannot read this key-value pair: cannot redefine existing string as dotted key-value"
       " pair (line 4)"},
      {team_with("[[teams]]"),
       "5:1 cannot read this table header: cannot redefine existing table 'teams' as"
       " array-of-tables (line 3)"},
      {team_with("[depts]\nmain.weight = 3"),
       "6:1 cannot read this key-value pair: cannot redefine existing table as dotted key-value pair"
       " (line 2)"},
      {"[depts.main]\nmax_class = \"demo\n", "2:18 a text is not closed where its line ends"},
      {"# \xfc\n", "1:2 the file is not in UTF-8; save it in that encoding"},
  });
}

// The library would end the process in an assert.
TEST(PolicyMessage, HeadersWithoutANameEndNothing) {
  const std::string note = " a table header needs a name, as in [NAME]";
  expect_errors({
      {"[\n", "1:2" + note},
      {"[depts.main]\n  [[ \n", "2:6" + note},
      {team_with("[.lab]\n"), "5:2" + note},
      {team_with("[= 3\n"), "5:2" + note},
  });
}

// A class of the admin's own begins with a floor, so there are floors that nobody wrote.
TEST(PolicyMessage, FloorsThatAreTooManyNeedNotBeWritten) {
  std::string classes;
  for (int i = 0; i < 7; ++i) {
    classes += "[classes.own" + std::to_string(i) + "]\nrank = " + std::to_string(10 + i) + "\n";
  }
  expect_errors({{classes,
                  "13:1 the floors of all classes add up to 0.55, 0.55 of it not written; at most 0.5"
                  " can be promised; write smaller ones"}});
}

TEST(PolicyMessage, QuotesNothingThatATerminalObeys) {
  const PolicyFileResult result =
      read_text(team_with("\"\\u001b[31m\\u0085\\u007f\\n.toml:1:1: error: f\\u00e4lschlich\" = 3"));
  ASSERT_EQ(result.errors.size(), 1u);
  EXPECT_EQ(format_error(result.errors[0]),
            "p.toml:5:1: error: teams.lab.\\x1b[31m\\x85\\x7f\\x0a.toml:1:1: error: "
            "f\u00e4lschlich is not a known key");
}

TEST(PolicyMessage, NamesWhatWasMeant) {
  const std::string count = " must be a whole number or a text such as \"40M\"; did you mean ";
  const std::string time =
      " must be a duration such as \"800ms\", \"2s\", \"10m\" or \"24h\"; did you mean ";
  expect_errors({
      {"[classes.bach]\nfloor = 0.1",
       "1:10 classes.bach is not a built-in class and needs a rank; did you mean \"batch\"?"},
      {"[class.batch]", "1:2 class is not a known key; did you mean classes?"},
      {"[shedule]", "1:2 shedule is not a known key; did you mean schedule?"},
      {team_with("Weight = 3"), "5:1 teams.lab.Weight is not a known key; did you mean weight?"},
      {team_with("rpm = 3"),
       "5:1 teams.lab.rpm is not a known key; did you mean requests_per_minute?"},
      {team_with("max_tokens = 3"),
       "5:1 teams.lab.max_tokens is not a known key; did you mean max_output_tokens?"},
      {"[classes.demo]\npriority = 3",
       "2:1 classes.demo.priority is not a known key; did you mean rank?"},
      {team_with("locality_slack = 5"),
       "5:1 teams.lab.locality_slack does not stand here; it is a key of [defaults]"},
      {team_with("watermark = 0.5"),
       "5:1 teams.lab.watermark does not stand here; it is a key of [classes.NAME]"},
      {"[classes.demo]\nweight = 3",
       "2:1 classes.demo.weight does not stand here; it is a key of [defaults], [depts.NAME] and"
       " [teams.NAME]"},
      {"weight = 3",
       "1:1 weight does not stand here; it is a key of [defaults], [depts.NAME] and [teams.NAME]"},
      {team_with("tokens_per_minute = \"40m\""),
       "5:21 teams.lab.tokens_per_minute" + count + "\"40M\"?"},
      {team_with("tokens_per_minute = \"60 K\""),
       "5:21 teams.lab.tokens_per_minute" + count + "\"60k\"?"},
      {team_with("inflight = 1e3"), "5:12 teams.lab.inflight" + count + "1000?"},
      {team_with("charge = \"Live\""),
       "5:10 teams.lab.charge must be \"max\", \"live\" or \"hard\"; did you mean \"live\"?"},
      {team_with("models = [\"chat\"]\n[models.chat-small]\nserves = \"x\""),
       "5:11 teams.lab.models names a model that does not exist; did you mean \"chat-small\"?"},
      {team_with("disabled = \"Yes\""),
       "5:12 teams.lab.disabled must be true or false; did you mean true?"},
      {team_with("budget_floor = { demo = 20 }"),
       "5:25 teams.lab.budget_floor.demo must be a number from 0 to 1; did you mean 0.2?"},
      {"[classes.batch]\nwatermark = \"80%\"",
       "2:13 classes.batch.watermark must be a number; did you mean 0.8?"},
      {"[classes.batch]\nwatermark = 1.2",
       "2:13 classes.batch.watermark must be a number from 0.000001 to 1"},
      {"[classes.demo]\norder = \"FIFO\"",
       "2:9 classes.demo.order must be \"fifo\", \"edf\" or \"lifo-when-standing\"; did you mean"
       " \"fifo\"?"},
      {"[classes.demo]\nttft = 2", "2:8 classes.demo.ttft" + time + "\"2s\"?"},
      {"[classes.demo]\nttft = 1.5", "2:8 classes.demo.ttft" + time + "\"1500ms\"?"},
      {"[classes.demo]\nttft = \"2 sec\"", "2:8 classes.demo.ttft" + time + "\"2s\"?"},
      {"[classes.demo]\nttft = \"1d\"", "2:8 classes.demo.ttft" + time + "\"24h\"?"},
  });
}

TEST(PolicyMessage, WhatNeverDecidesAnythingIsAWarning) {
  const auto warning = [](std::string_view lines) {
    const PolicyFileResult result = read_text(team_with(lines));
    EXPECT_TRUE(result.policy);
    return result.warnings.size() == 1 ? place_and_message(result.warnings[0]) : "";
  };
  EXPECT_EQ(warning("inflight = 4\ninflight_by_class = { batch = 8 }"),
            "6:21 teams.lab.inflight_by_class.batch 8 is more than its inflight 4 (line 5), so it"
            " limits nothing");
  EXPECT_EQ(warning("max_class = \"batch\"\ndefault_class = \"demo\""),
            "6:17 teams.lab.default_class demo is above its max_class batch (line 5), to which it"
            " is always lowered");
}

TEST(Slips, FarNamesAndValuesHaveNoSuggestion) {
  const std::array<std::string_view, 3> known = {"queue_requests", "queue_tokens", "weight"};
  EXPECT_EQ(nearest_name("queue", known), "") << "of two";
  EXPECT_EQ(nearest_name("colour", known), "");
  EXPECT_EQ(nearest_name(std::string(65, 'w'), known), "");
  EXPECT_EQ(nearest_name("priority", known), "") << "no rank here";
  EXPECT_EQ(meant_count("many"), std::nullopt);
  EXPECT_EQ(meant_count(""), std::nullopt);
  EXPECT_EQ(meant_duration("soon"), std::nullopt);
  EXPECT_EQ(meant_duration("-2s"), std::nullopt);
  EXPECT_EQ(meant_duration("0.0001s"), std::nullopt);
  EXPECT_EQ(meant_share(150), std::nullopt);
  EXPECT_EQ(meant_boolean("perhaps"), std::nullopt);
}

}  // namespace
}  // namespace turnstile::policy
