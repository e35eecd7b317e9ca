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

// After steps without guesses.
GuessCost watched(int steps = 4) {
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

TEST(GuessCost, StepsWithoutGuessesComeFirstAndAgainNowAndThen) {
  GuessCost cost;
  cost.observe({}, 50.0, 0.0);  // a prompt
  EXPECT_FALSE(cost.may_guess(1));
  cost.observe(plain(), kPlainMs, 0.0);
  cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_TRUE(cost.may_guess(1));
  EXPECT_FALSE(cost.may_guess(2));
  std::uint32_t guesses = 0;
  while (cost.may_guess(1) && guesses < 1'000) {
    cost.observe(guessed(1, 1), 6.0, 0.0);
    ++guesses;
  }
  EXPECT_EQ(guesses, GuessCost::kPlainEvery);
  cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_TRUE(cost.may_guess(1));
}

// Every step that may guess does, in vain.
TEST(GuessCost, LossesStayNearOnePercent) {
  GuessCost cost = watched();
  double lost = 0.0;
  constexpr int kSteps = 20'000;
  for (int i = 0; i < kSteps; ++i) {
    if (cost.may_guess(1)) {
      cost.observe(guessed(1, 0), 1.8 * kPlainMs, 0.0);
      lost += 0.8;
    } else {
      cost.observe(plain(), kPlainMs, 0.0);
    }
  }
  EXPECT_LT(lost, GuessCost::kMostBalance + GuessCost::kBalanceShare * kSteps + 1.0);
  EXPECT_GT(lost, 0.5 * GuessCost::kBalanceShare * kSteps) << "it is tried again";
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
  for (int i = 0; i < 3; ++i) cost.observe(guessed(3, 0), 10'000.0, 0.0);
  int steps = 0;
  for (; !cost.may_guess(1) && steps < 10'000; ++steps) cost.observe(plain(), kPlainMs, 0.0);
  EXPECT_LT(steps, 1'000);
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
