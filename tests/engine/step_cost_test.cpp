#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace turnstile::engine {
namespace {

constexpr std::uint64_t kPositionBytes = 23'040;

struct Machine {
  double base_ms = 4.0;
  double row_ms = 0.8;
  double kv_byte_ms = 1e-7;

  double time(const StepWork& work) const {
    return base_ms + row_ms * work.rows + kv_byte_ms * static_cast<double>(work.kv_bytes);
  }
};

// Decode steps of several batches and depths, and chunks of prompts.
std::vector<StepWork> usual_steps() {
  std::vector<StepWork> steps;
  for (const std::uint32_t rows : {1U, 4U, 8U, 32U}) {
    for (const std::uint32_t depth : {30U, 500U, 1900U}) {
      StepWork work;
      for (std::uint32_t i = 0; i < rows; ++i) {
        const StepWork one = work_of(1, depth, kPositionBytes);
        work.rows += one.rows;
        work.kv_bytes += one.kv_bytes;
      }
      steps.push_back(work);
    }
  }
  for (const std::uint32_t position : {0U, 512U, 1024U}) {
    steps.push_back(work_of(512, position, kPositionBytes));
    steps.push_back(work_of(64, position, kPositionBytes));
  }
  return steps;
}

TEST(StepWork, EachRowAttendsOverAllBeforeItAndItself) {
  EXPECT_EQ(work_of(1, 0, 10).kv_bytes, 10U);
  EXPECT_EQ(work_of(1, 99, 10).kv_bytes, 1'000U);
  EXPECT_EQ(work_of(3, 10, 1).kv_bytes, 11U + 12 + 13);
  EXPECT_EQ(work_of(3, 10, 1).rows, 3U);
}

TEST(StepCost, KnowsNothingBeforeTheFirstObservation) {
  StepCost cost;
  EXPECT_FALSE(cost.is_known());
  cost.observe({.rows = 4, .kv_bytes = 0}, 0.0);
  cost.observe({.rows = 4, .kv_bytes = 0}, std::numeric_limits<double>::quiet_NaN());
  cost.observe({.rows = 4, .kv_bytes = 0}, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(cost.is_known()) << "what is no duration is ignored";
}

TEST(StepCost, OneObservationIsExplainedByItsRows) {
  StepCost cost;
  cost.observe(work_of(100, 0, 0), 50.0);
  EXPECT_TRUE(cost.is_known());
  EXPECT_NEAR(cost.terms().row_ms, 0.5, 1e-9);
  EXPECT_NEAR(cost.predict_ms({.rows = 10, .kv_bytes = 0}), 5.0, 1e-9);
}

TEST(StepCost, FindsTheTermsOfAMachine) {
  const Machine machine;
  StepCost cost;
  for (int round = 0; round < 3; ++round) {
    for (const StepWork& work : usual_steps()) cost.observe(work, machine.time(work));
  }
  EXPECT_NEAR(cost.terms().base_ms, machine.base_ms, 0.1 * machine.base_ms);
  EXPECT_NEAR(cost.terms().row_ms, machine.row_ms, 0.05 * machine.row_ms);
  EXPECT_NEAR(cost.terms().kv_byte_ms, machine.kv_byte_ms, 0.2 * machine.kv_byte_ms);
}

// Decodes of a model with a large vocabulary: half of a row's time is its logits.
TEST(StepCost, TellsRowsWithLogitsFromThoseWithout) {
  StepCost cost;
  const auto time = [](const StepWork& work) {
    return 4.0 + 0.6 * work.rows + 0.6 * work.logits_rows;
  };
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  for (int i = 0; i < 600; ++i) {
    const auto decodes = static_cast<std::uint32_t>(1 + random() % 32);
    const auto prompt = static_cast<std::uint32_t>(i % 3 == 0 ? random() % 64 : 0);
    const StepWork work{.rows = decodes + prompt, .logits_rows = decodes};
    cost.observe(work, time(work) * noise(random));
  }
  for (const StepWork& work :
       {StepWork{.rows = 24, .logits_rows = 24}, StepWork{.rows = 24, .logits_rows = 4},
        StepWork{.rows = 90, .logits_rows = 30}}) {
    EXPECT_NEAR(cost.predict_ms(work), time(work), 0.08 * time(work)) << work.logits_rows;
  }
  EXPECT_NEAR(cost.rows_within(12.0, 0, 0), 20.0, 3.0) << "rows of prompts have no logits";
}

// What decodes cost is said of rows until a prompt tells them apart.
TEST(StepCost, WithoutPromptsRowsExplainTheLogits) {
  StepCost cost;
  for (int i = 0; i < 100; ++i) {
    const auto rows = 1U + static_cast<std::uint32_t>(i) % 32U;
    cost.observe({.rows = rows, .logits_rows = rows}, 4.0 + 1.2 * rows);
  }
  EXPECT_NEAR(cost.terms().row_ms, 1.2, 0.05);
  EXPECT_NEAR(cost.terms().logits_row_ms, 0.0, 0.05);
}

TEST(StepCost, PredictsUnderNoiseAndAfterThousandsOfEqualSteps) {
  const Machine machine;
  StepCost cost;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.85, 1.15);
  for (const StepWork& work : usual_steps()) cost.observe(work, machine.time(work) * noise(random));
  const StepWork decode = work_of(1, 300, kPositionBytes);
  for (int i = 0; i < 1'500; ++i) cost.observe(decode, machine.time(decode) * noise(random));
  for (const StepWork& work : usual_steps()) {
    EXPECT_NEAR(cost.predict_ms(work), machine.time(work), 0.2 * machine.time(work)) << work.rows;
  }
}

TEST(StepCost, FollowsAMachineThatBecomesSlower) {
  Machine machine;
  StepCost cost;
  for (const StepWork& work : usual_steps()) cost.observe(work, machine.time(work));
  machine = {.base_ms = 12.0, .row_ms = 2.4, .kv_byte_ms = 3e-7};
  for (int round = 0; round < 40; ++round) {
    for (const StepWork& work : usual_steps()) cost.observe(work, machine.time(work));
  }
  EXPECT_NEAR(cost.terms().row_ms, 2.4, 0.1);
}

TEST(StepCost, AStepThatWasHeldUpCountsAsTwiceItsUsualTimeAtMost) {
  StepCost cost;
  for (int i = 0; i < 8; ++i) cost.observe(work_of(8, 0, 0), 10.0);
  cost.observe(work_of(8, 0, 0), 10'000.0);
  EXPECT_LT(cost.predict_ms(work_of(8, 0, 0)), 12.0);
}

TEST(StepCost, TermsAreNeverNegative) {
  std::mt19937 random(3);
  StepCost cost;
  for (int i = 0; i < 20'000; ++i) {
    const auto rows = static_cast<std::uint32_t>(1 + random() % 600);
    cost.observe(work_of(rows, static_cast<std::uint32_t>(random() % 2000), random() % 100'000),
                 0.001 * static_cast<double>(1 + random() % 1'000'000));
    const StepCost::Terms& terms = cost.terms();
    ASSERT_TRUE(terms.base_ms >= 0.0 && terms.row_ms >= 0.0 && terms.kv_byte_ms >= 0.0) << i;
    ASSERT_TRUE(std::isfinite(terms.base_ms + terms.row_ms + terms.kv_byte_ms)) << i;
  }
}

TEST(StepCost, RowsWithinABudgetAreTheMostThatFit) {
  const Machine machine;
  StepCost cost;
  for (const StepWork& work : usual_steps()) cost.observe(work, machine.time(work));
  const auto added = [&](std::uint32_t rows, std::uint32_t position) {
    return cost.predict_ms(work_of(rows, position, kPositionBytes)) - cost.terms().base_ms;
  };
  for (const double budget : {0.5, 5.0, 50.0, 500.0}) {
    for (const std::uint32_t position : {0U, 700U, 1'900U}) {
      const std::uint32_t rows = cost.rows_within(budget, position, kPositionBytes);
      EXPECT_LE(added(rows, position), budget * 1.001);
      EXPECT_GT(added(rows + 1, position), budget * 0.999);
    }
  }
  EXPECT_EQ(cost.rows_within(0.0, 0, kPositionBytes), 0U);
  EXPECT_EQ(cost.rows_within(-3.0, 0, kPositionBytes), 0U);
}

}  // namespace
}  // namespace turnstile::engine
