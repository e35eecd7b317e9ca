// Cancels that come while a step runs: it is given up when nobody wants it, and only then.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::Request;

// Does `what` when the step is half done.
class Meanwhile final : public engine::StepMail {
 public:
  explicit Meanwhile(std::function<void()> what) : what_(std::move(what)) {}
  void read() override { what_(); }

 private:
  std::function<void()> what_;
};

void step_and_meanwhile(EngineRun& run, std::function<void()> what) {
  Meanwhile mail(std::move(what));
  run.step(&mail);
}

Request long_answer(engine::RequestId id, std::string_view prompt) {
  Request request = greedy_request(id, prompt, 30);
  request.stop.ignore_eos = true;
  return request;
}

// In every phase: chunks of the prompt, the last of them, decodes.
TEST(Departure, AStepThatEverybodyLeftIsGivenUpAndSaysNothing) {
  for (int steps_before = 0; steps_before < 6; ++steps_before) {
    EngineRun run(toy_engine(roomy_limits()));
    run.add(long_answer(1, letters(150)));
    run.add(long_answer(2, letters(70, 2)));
    for (int i = 0; i < steps_before; ++i) run.step();
    const std::size_t tokens = run.result(1).choices[0].tokens.size();
    const std::uint32_t computed = run.result(1).computed_tokens;
    step_and_meanwhile(run, [&] {
      run.cancel(1);
      run.cancel(2);
    });
    EXPECT_TRUE(run.is_given_up());
    EXPECT_EQ(run.result(1).choices[0].tokens.size(), tokens);
    EXPECT_EQ(run.result(1).computed_tokens, computed);
    ASSERT_TRUE(run.has_work()) << "the ends are not reported yet";
    run.step();
    for (const engine::RequestId id : {1U, 2U}) {
      EXPECT_EQ(run.result(id).choices[0].finish, FinishReason::Cancelled);
    }
    EXPECT_FALSE(run.has_work());
  }
}

TEST(Departure, AStepThatSomebodyStillWantsIsFinished) {
  EngineRun run(toy_engine(roomy_limits()));
  const Request wanted = long_answer(3, letters(20, 3));
  for (engine::RequestId id = 1; id <= 2; ++id) {
    run.add(long_answer(id, letters(20, static_cast<std::uint32_t>(id))));
  }
  run.add(wanted);
  step_and_meanwhile(run, [&] {
    run.cancel(1);
    run.cancel(2);
  });
  EXPECT_FALSE(run.is_given_up());
  EXPECT_EQ(run.result(3).choices[0].tokens.size(), 1U);
  run.run();
  EXPECT_EQ(run.result(3).choices[0].tokens, run_alone(wanted).choices[0].tokens);
}

// The toy model leaves nonsense where a step was given up.
TEST(Departure, WhatAGivenUpStepWroteIsNeverRead) {
  EngineRun run(toy_engine(roomy_limits()));
  run.add(long_answer(1, letters(150)));
  run.step();
  step_and_meanwhile(run, [&] { run.cancel(1); });
  ASSERT_TRUE(run.is_given_up());
  const Request again = long_answer(2, letters(150));
  run.add(again);
  run.run();
  EXPECT_EQ(run.result(2).cached_tokens, 64U) << "the first chunk, which was finished";
  EXPECT_EQ(run.result(2).choices[0].tokens, run_alone(again).choices[0].tokens);
}

// Whoever comes while the step runs is served next, in the place of those who left.
TEST(Departure, ANewcomerDoesNotWaitForTheStepOfThoseWhoLeft) {
  EngineRun run(toy_engine(roomy_limits()));
  for (engine::RequestId id = 1; id <= 8; ++id) {
    run.add(long_answer(id, letters(100, static_cast<std::uint32_t>(id))));
  }
  run.step();
  step_and_meanwhile(run, [&] {
    for (engine::RequestId id = 1; id <= 8; ++id) run.cancel(id);
    run.add(long_answer(9, letters(20, 9)));
  });
  EXPECT_TRUE(run.is_given_up());
  run.step();
  EXPECT_EQ(run.result(9).choices[0].tokens.size(), 1U);
}

TEST(Departure, AGivenUpStepTeachesNothingAboutTimes) {
  EngineRun run(toy_engine(roomy_limits()));
  run.add(long_answer(1, letters(40)));
  run.step();
  run.observe_step(10.0);
  run.step();
  run.observe_step(2.0);
  run.step();
  const double row_ms = run.output().stats.step_row_ms;
  const double base_ms = run.output().stats.step_base_ms;
  ASSERT_GT(row_ms + base_ms, 0.0);
  step_and_meanwhile(run, [&] { run.cancel(1); });
  ASSERT_TRUE(run.is_given_up());
  run.observe_step(5'000.0);
  run.step();
  EXPECT_EQ(run.output().stats.step_row_ms, row_ms);
  EXPECT_EQ(run.output().stats.step_base_ms, base_ms);
}

}  // namespace
}  // namespace turnstile::tests
