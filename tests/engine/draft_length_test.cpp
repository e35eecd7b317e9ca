#include "engine/draft_length.h"

#include "engine/acceptance.h"

#include <gtest/gtest.h>

namespace turnstile::engine {
namespace {

// A machine on which a step of one row takes 5 ms and each further row 0.5 ms.
StepCost machine() {
  StepCost cost;
  for (int i = 0; i < 20; ++i) {
    for (const std::uint32_t rows : {1U, 8U, 64U, 512U}) {
      cost.observe({.rows = rows, .kv_bytes = 0}, 4.5 + 0.5 * rows);
    }
  }
  return cost;
}

// Every guess has this chance.
GuessChances all(float chance) {
  GuessChances chances(Acceptance{}, 0);
  chances.other = chance;
  return chances;
}

std::uint32_t guesses(const StepCost& cost, std::uint32_t streams, float acceptance) {
  return DraftLength(cost, {.rows = streams, .kv_bytes = 0}, streams)
      .choose(all(acceptance), 8);
}

TEST(DraftLength, LikelyGuessesPayForOneStreamAndUnlikelyOnesDoNot) {
  const StepCost cost = machine();
  EXPECT_EQ(guesses(cost, 1, 0.99F), 8U);
  EXPECT_GE(guesses(cost, 1, 0.7F), 2U);
  EXPECT_LE(guesses(cost, 1, 0.7F), 5U);
  EXPECT_EQ(guesses(cost, 1, 0.1F), 0U);
  EXPECT_EQ(guesses(cost, 1, 0.0F), 0U);
}

TEST(DraftLength, ShrinksAsTheStepFillsAndIsZeroWhereEveryRowCostsItsFullShare) {
  const StepCost cost = machine();
  std::uint32_t before = guesses(cost, 1, 0.8F);
  for (const std::uint32_t streams : {2U, 4U, 8U, 16U, 64U}) {
    const std::uint32_t now = guesses(cost, streams, 0.8F);
    EXPECT_LE(now, before) << streams;
    before = now;
  }
  EXPECT_EQ(before, 0U);
  EXPECT_FALSE(DraftLength(cost, {.rows = 64, .kv_bytes = 0}, 64).can_pay());
  EXPECT_TRUE(DraftLength(cost, {.rows = 1, .kv_bytes = 0}, 1).can_pay());
}

// For every choice: at the stated chances, tokens a millisecond do not fall.
TEST(DraftLength, NeverLowersTheExpectedThroughput) {
  const StepCost cost = machine();
  for (std::uint32_t streams = 1; streams <= 40; ++streams) {
    for (float acceptance = 0.05F; acceptance < 1.0F; acceptance += 0.05F) {
      const std::uint32_t drafts = guesses(cost, streams, acceptance);
      double tokens = streams;
      double chance = 1.0;
      for (std::uint32_t i = 0; i < drafts; ++i) {
        chance *= static_cast<double>(acceptance);
        tokens += chance;
      }
      const double without = streams / (4.5 + 0.5 * streams);
      const double with = tokens / (4.5 + 0.5 * (streams + drafts));
      EXPECT_GE(with, without) << streams << " streams, " << acceptance;
    }
  }
}

TEST(DraftLength, GuessesOfOneSequenceMakeThoseOfTheNextDearer) {
  const StepCost cost = machine();
  DraftLength length(cost, {.rows = 4, .kv_bytes = 0}, 4);
  const std::uint32_t first = length.choose(all(0.9F), 16);
  length.take(all(0.9F), first);
  const std::uint32_t second = length.choose(all(0.9F), 16);
  EXPECT_GT(first, 0U);
  EXPECT_LT(second, first);
}

TEST(DraftLength, KnowsAUsualMachineBeforeAnythingIsLearned) {
  EXPECT_GE(guesses(StepCost(), 1, 0.5F), 1U);
  EXPECT_EQ(guesses(StepCost(), 32, 0.5F), 0U);
}

// The same machine; a pass of the draft model takes 1 ms.
StepCost machine_with_draft_model() {
  StepCost cost = machine();
  for (int i = 0; i < 20; ++i) {
    for (const double passes : {1.0, 2.0, 4.0, 8.0}) {
      const auto rows = static_cast<std::uint32_t>(passes) + 1;
      cost.observe({.rows = rows, .kv_bytes = 0, .draft_passes = passes},
                   4.5 + 0.5 * rows + passes);
    }
  }
  return cost;
}

TEST(DraftLength, GuessesThatCostAPassMustBeWorthIt) {
  const StepCost cost = machine_with_draft_model();
  ASSERT_NEAR(cost.terms().draft_pass_ms, 1.0, 0.05);
  const auto chosen = [&](float acceptance, std::uint32_t sharing) {
    return DraftLength(cost, {.rows = 4, .kv_bytes = 0}, 4, sharing).choose(all(acceptance), 8);
  };
  for (const float acceptance : {0.5F, 0.7F, 0.9F, 0.97F}) {
    EXPECT_LE(chosen(acceptance, 1), chosen(acceptance, 4)) << "a pass that is shared is cheaper";
    EXPECT_LE(chosen(acceptance, 4), chosen(acceptance, 0)) << "and none at all the cheapest";
  }
  EXPECT_LT(chosen(0.9F, 1), chosen(0.9F, 0));
  EXPECT_GT(chosen(0.97F, 4), 0U);
}

TEST(DraftLength, TheFirstUnsureGuessEndsASureDraftEarlier) {
  const StepCost cost = machine();
  const DraftLength length(cost, {.rows = 1, .kv_bytes = 0}, 1);
  GuessChances chances(Acceptance{}, 2);
  chances.sure = 0.95F;
  chances.other = 0.05F;
  EXPECT_EQ(length.choose(chances, 8), 2U);
}

TEST(Acceptance, AGuessThatIsStillToBeMadeIsAsSureAsGuessesWereOfLate) {
  Acceptance acceptance;
  for (int i = 0; i < 60; ++i) acceptance.count(true);
  EXPECT_NEAR(acceptance.expected(), acceptance.of(true), 0.01F);
  for (int i = 0; i < 60; ++i) acceptance.count(false);
  EXPECT_NEAR(acceptance.expected(), acceptance.of(false), 0.01F);
}

TEST(Acceptance, FadesToWhatIsTypical) {
  Acceptance acceptance;
  const Acceptance typical;
  for (int i = 0; i < 60; ++i) acceptance.judge(true, false);
  for (int i = 0; i < 40; ++i) acceptance.fade_to(typical);
  EXPECT_GT(acceptance.of(true), 0.3F);
  EXPECT_LT(acceptance.of(true), typical.of(true));
}

TEST(Acceptance, FollowsWhatComesTrueForEachKindOfGuess) {
  Acceptance acceptance;
  EXPECT_GT(acceptance.of(true), acceptance.of(false));
  for (int i = 0; i < 60; ++i) {
    acceptance.judge(true, false);
    acceptance.judge(false, true);
  }
  EXPECT_LT(acceptance.of(true), 0.01F);
  EXPECT_GT(acceptance.of(false), 0.99F);
}

}  // namespace
}  // namespace turnstile::engine
