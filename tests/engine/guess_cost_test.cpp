// What guesses cost is learned from steps with and without them; losses are bounded.
#include "engine/guess_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace turnstile::engine {
namespace {

constexpr double kPlainMs = 5.0;

DecodeStep plain(std::uint32_t sequences = 1) { return {.sequences = sequences}; }

DecodeStep guessed(std::uint32_t guesses, std::uint32_t accepted) {
  return {.sequences = 1, .guesses = guesses, .accepted = accepted};
}

// After steps without guesses; from eight on each is an eighth of the mean.
GuessCost watched(int steps = 8) {
  GuessCost cost;
  for (int i = 0; i < steps; ++i) cost.observe(plain(), kPlainMs, 0.0);
  return cost;
}

TEST(GuessCost, WithoutObservationsNothingIsForbidden) {
  const GuessCost cost;
  EXPECT_FALSE(cost.is_known());
  EXPECT_TRUE(cost.may_guess(1));
  EXPECT_FALSE(cost.guess_share(1));
}

TEST(GuessCost, WhatAGuessCostsIsMeasuredAgainstStepsWithoutOne) {
  GuessCost cost = watched();
  cost.observe(guessed(1, 1), 9.0, 0.0);
  EXPECT_FALSE(cost.guess_share(1)) << "one step tells little";
  cost.observe(guessed(2, 2), 13.0, 0.0);
  ASSERT_TRUE(cost.guess_share(1));
  EXPECT_NEAR(*cost.guess_share(1), 0.8, 1e-9);
  EXPECT_FALSE(cost.guess_share(2)) << "of two sequences nothing was seen";
  EXPECT_FALSE(cost.guess_share(GuessCost::kMostSequences + 1));
}

TEST(GuessCost, DeeperStepsAreComparedWithWhatTheyWouldTakeWithoutGuesses) {
  GuessCost cost = watched();
  for (int i = 0; i < 2; ++i) {
    cost.observe({.sequences = 1, .guesses = 1, .accepted = 1, .kv_bytes = 1'000}, 9.0, 0.001);
  }
  EXPECT_NEAR(*cost.guess_share(1), 0.5, 1e-9) << "6 ms without, 9 ms with";
}

// A cache that was deeper makes a step longer, but hardly one without it shorter than half.
TEST(GuessCost, AShallowStepIsComparedWithHalfOfADeepOneAtLeast) {
  GuessCost cost;
  for (int i = 0; i < 8; ++i) {
    cost.observe({.sequences = 1, .kv_bytes = 1'000}, kPlainMs, 0.01);
  }
  for (int i = 0; i < 2; ++i) cost.observe(guessed(1, 1), 4.0, 0.01);
  EXPECT_NEAR(*cost.guess_share(1), 0.6, 1e-9) << "2.5 ms without, 4 ms with";
}

TEST(GuessCost, TwoStepsWithoutGuessesComeFirstAndOneInSixtyFourLater) {
  GuessCost cost;
  cost.observe({}, 50.0, 0.0);  // a prompt
  EXPECT_FALSE(cost.may_guess(1));
  cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_FALSE(cost.may_guess(1));
  cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_TRUE(cost.may_guess(1));
  EXPECT_FALSE(cost.may_guess(2));
  std::uint32_t guesses = 0;
  while (cost.may_guess(1) && guesses < 1'000) {
    cost.observe(guessed(1, 1), 6.0, 0.0);
    ++guesses;
  }
  EXPECT_EQ(guesses, 64U);
  cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_TRUE(cost.may_guess(1));
}

// What guesses cost, in steps without them: of `steps` steps every one that may guess does.
double lost_in(GuessCost& cost, int steps, const DecodeStep& step, double share) {
  double lost = 0.0;
  for (int i = 0; i < steps; ++i) {
    if (cost.may_guess(1)) {
      cost.observe(step, (1.0 + share) * kPlainMs, 0.0);
      lost += share;
    } else {
      cost.observe(plain(), kPlainMs, 0.0);
    }
  }
  return lost;
}

// Four steps at first, one in a hundred later, and the last guess.
TEST(GuessCost, LossesStayNearOnePercent) {
  for (const double share : {0.2, 0.8, 1.9}) {
    GuessCost cost = watched();
    const double at_first = lost_in(cost, 20, guessed(1, 0), share);
    EXPECT_LE(at_first, 4.2 + share);
    EXPECT_GE(at_first, std::min(4.0, 19 * share));
    const double later = lost_in(cost, 20'000, guessed(1, 0), share);
    EXPECT_LE(later, 200.0 + 4.2 + share);
    EXPECT_GE(later, 190.0) << "it is tried again";
  }
}

// The draft model is asked and says nothing that could be verified.
TEST(GuessCost, PassesThatMakeNoGuessAreLossesToo) {
  GuessCost cost = watched();
  EXPECT_LE(lost_in(cost, 20'000, {.sequences = 1, .draft_passes = 1.5}, 2.5), 200.0 + 4.2 + 2.5);
}

TEST(GuessCost, LongGainsExcuseNoLongLosses) {
  GuessCost cost = watched();
  for (int i = 0; i < 1'000; ++i) {
    cost.observe(cost.may_guess(1) ? guessed(2, 2) : plain(), kPlainMs, 0.0);
  }
  EXPECT_EQ(cost.balance(), 4.0);
  EXPECT_LE(lost_in(cost, 1'000, guessed(1, 0), 0.8), 30.0);
}

// Sixteen steps outweigh what guesses gained before.
TEST(GuessCost, AFewBadStepsDoNotEndGuessesThatGainedOfLateAndManyDo) {
  GuessCost cost = watched();
  for (int i = 0; i < 60; ++i) cost.observe(guessed(1, 1), kPlainMs, 0.0);
  cost.observe(plain(), kPlainMs, 0.0);
  DecodeStep reading = guessed(1, 1);
  reading.draft_passes = 40.0;
  reading.has_read = true;
  cost.observe(reading, 200.0, 0.0);
  int steps = 0;
  while (cost.may_guess(1) && steps < 60) {
    cost.observe(guessed(1, 0), 1.5 * kPlainMs, 0.0);
    ++steps;
  }
  EXPECT_GE(steps, 12);
  EXPECT_LE(steps, 24);
}

TEST(GuessCost, WhatAGuessCostsFollowsTheLastEightSteps) {
  GuessCost cost = watched();
  for (int i = 0; i < 12; ++i) cost.observe(guessed(1, 1), 6.0, 0.0);
  EXPECT_NEAR(*cost.guess_share(1), 0.2, 1e-9);
  cost.observe(guessed(1, 1), 10.0, 0.0);
  EXPECT_NEAR(*cost.guess_share(1), 0.2 + 0.8 / 8.0, 1e-9) << "one says little";
  for (int i = 0; i < 16; ++i) cost.observe(guessed(1, 1), 10.0, 0.0);
  EXPECT_GT(*cost.guess_share(1), 0.9);
  for (int i = 0; i < 16; ++i) cost.observe(plain(), 2.0 * kPlainMs, 0.0);
  for (int i = 0; i < 32; ++i) cost.observe(guessed(1, 1), 14.0, 0.0);
  EXPECT_NEAR(*cost.guess_share(1), 0.5, 0.1) << "of 10 ms without";
}

TEST(GuessCost, AGuessThatTakesNearlyTwoStepsCountsInFull) {
  GuessCost cost = watched();
  for (int i = 0; i < 2; ++i) cost.observe(guessed(1, 1), 2.9 * kPlainMs, 0.0);
  EXPECT_NEAR(*cost.guess_share(1), 1.9, 1e-9);
  EXPECT_NEAR(cost.balance(), 4.0 + 2 * (0.01 + 2.0 - 2.9) - 0.01, 1e-9);
}

TEST(GuessCost, ReadingIsALossThatLaterGainsExcuse) {
  GuessCost cost = watched();
  for (int i = 0; i < 3; ++i) cost.observe(guessed(2, 2), 7.0, 0.0);
  DecodeStep reading = guessed(1, 1);
  reading.draft_passes = 22.0;
  reading.has_read = true;
  cost.observe(reading, 400.0, 0.0);
  EXPECT_LT(cost.balance(), -50.0);
  EXPECT_TRUE(cost.may_guess(1)) << "guesses gained of late";
  EXPECT_LT(*cost.guess_share(1), 0.3) << "and reading is no part of what one costs";
  for (int i = 0; i < 20; ++i) cost.observe(guessed(2, 0), 9.0, 0.0);
  EXPECT_FALSE(cost.may_guess(1));
}

TEST(GuessCost, StepsThatWereHeldUpForSecondsDoNotEndThem) {
  GuessCost cost = watched();
  for (int i = 0; i < 20; ++i) cost.observe(guessed(3, 2), 6.5, 0.0);
  const double before = cost.balance();
  for (int i = 0; i < 3; ++i) cost.observe(guessed(3, 0), 10'000.0, 0.0);
  EXPECT_GE(cost.balance(), before - 6.0) << "about twice their usual time";
  int steps = 0;
  for (; !cost.may_guess(1) && steps < 10'000; ++steps) cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_LT(steps, 1'000);
}

TEST(GuessCost, AStepWithoutGuessesThatWasHeldUpMakesThemHardlyCheaper) {
  GuessCost cost = watched();
  cost.observe(plain(), 10'000.0, 0.0);
  for (int i = 0; i < 2; ++i) cost.observe(guessed(1, 1), 9.0, 0.0);
  EXPECT_NEAR(*cost.guess_share(1), 0.6, 1e-9) << "of 5.625 ms without";
}

TEST(GuessCost, DurationsThatMeanNothingAreIgnored) {
  GuessCost cost = watched();
  for (const double duration : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    cost.observe(guessed(1, 0), duration, 0.0);
  }
  EXPECT_EQ(cost.balance(), GuessCost::kMostBalance);
  EXPECT_FALSE(cost.guess_share(1));
}

TEST(GuessCost, ManySequencesAreNotGuessedFor) {
  GuessCost cost = watched();
  for (int i = 0; i < 9; ++i) cost.observe(plain(GuessCost::kMostSequences + 1), kPlainMs, 0.0);
  EXPECT_FALSE(cost.may_guess(GuessCost::kMostSequences + 1));
}

}  // namespace
}  // namespace turnstile::engine
