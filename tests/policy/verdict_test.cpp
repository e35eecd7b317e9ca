#include "policy/verdict.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "policy/policy_set.h"
#include "policy/timeouts.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Verdict, CodesAreThoseOfTheInterface) {
  struct Row {
    RefusalCode code;
    std::string_view text;
    bool counted;
  };
  const std::vector<Row> rows = {
      {RefusalCode::InvalidValue, "invalid_value", false},
      {RefusalCode::ContextLengthExceeded, "context_length_exceeded", false},
      {RefusalCode::InputTooLong, "input_too_long", true},
      {RefusalCode::ExceedsBudgetCapacity, "exceeds_budget_capacity", true},
      {RefusalCode::KeyDisabled, "key_disabled", true},
      {RefusalCode::ModelNotAllowed, "model_not_allowed", true},
      {RefusalCode::ModelNotFound, "model_not_found", true},
      {RefusalCode::RateRequests, "rate_requests", true},
      {RefusalCode::BudgetTokens, "budget_tokens", true},
      {RefusalCode::QueueFull, "queue_full", true},
      {RefusalCode::Displaced, "displaced", true},
      {RefusalCode::QueueDeadline, "queue_deadline", true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(to_string(row.code), row.text);
    EXPECT_EQ(counts_as_refusal(row.code), row.counted) << row.text;
    Refusal refusal;
    refusal.code = row.code;
    refusal.limit = 12;
    EXPECT_EQ(sentence(refusal).back(), '.') << row.text;
  }
}

TEST(Verdict, SentenceNamesLimitAndOwner) {
  Refusal refusal;
  refusal.code = RefusalCode::BudgetTokens;
  refusal.scope = "team/lab";
  refusal.limit = 60'000;
  EXPECT_EQ(sentence(refusal),
            "The token budget is used up: the limit per minute is 60000 (team/lab).");
}

// Three choices for each of two prompts: the client sent n = 3.
TEST(Verdict, SentenceOfChoicesSaysThatPromptsCount) {
  Refusal refusal;
  refusal.code = RefusalCode::InvalidValue;
  refusal.param = "n";
  refusal.scope = "engine";
  refusal.asked = 6;
  refusal.limit = 4;
  EXPECT_EQ(sentence(refusal), "n (times the prompts) is 6, above the limit of 4 (engine).");
}

TEST(Verdict, JitterAddsUpToAQuarterAndNeverSubtracts) {
  const Duration wait = seconds(8);
  std::set<Duration> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Duration jittered = with_jitter(wait, seed);
    EXPECT_EQ(jittered, with_jitter(wait, seed));
    EXPECT_GE(jittered, wait);
    EXPECT_LE(jittered, wait + wait / 4);
    seen.insert(jittered);
  }
  EXPECT_GT(seen.size(), 200u) << "consecutive ids are spread";
}

TEST(Timeouts, PrefillGrowsWithTheUncachedPrompt) {
  Timeouts timeouts;
  timeouts.prefill_base = seconds(5);
  timeouts.prefill_per_1k_uncached = milliseconds(250);
  EXPECT_EQ(prefill_timeout(timeouts, 0), seconds(5));
  EXPECT_EQ(prefill_timeout(timeouts, 1000), milliseconds(5250));
  EXPECT_EQ(prefill_timeout(timeouts, 500), milliseconds(5125));
  timeouts.prefill_slack_milli = 2000;
  EXPECT_EQ(prefill_timeout(timeouts, 4000), seconds(7));
  timeouts.prefill_slack_milli = 500;
  EXPECT_EQ(prefill_timeout(timeouts, 4000), milliseconds(5500));
}

TEST(Timeouts, LargestSettingsDoNotOverflow) {
  Timeouts timeouts;
  timeouts.prefill_base = std::chrono::hours(7 * 24);
  timeouts.prefill_per_1k_uncached = std::chrono::hours(7 * 24);
  timeouts.prefill_slack_milli = 100'000;
  EXPECT_GT(prefill_timeout(timeouts, 1'000'000'000), timeouts.prefill_base);
}

TEST(Revision, ShowsNumberAndFirstBytesOfTheHash) {
  const std::vector<std::uint8_t> hash = {0x0a, 0xff, 0x00, 0x7e, 0x99};
  EXPECT_EQ(revision_text(12, hash), "r12-0aff007e");
}

}  // namespace
}  // namespace turnstile::policy
