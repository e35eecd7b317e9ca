// Prefix cache and choices: what sequences share, as seen from outside the engine.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"

namespace turnstile::tests {
namespace {

using engine::Limits;
using engine::Request;

TEST(PrefixCaching, TheSecondRequestFindsThePromptOfTheFirst) {
  EngineRun run(toy_engine(roomy_limits()));
  const std::string prompt = letters(100);
  run.add(greedy_request(1, prompt, 5));
  run.run();
  run.add(greedy_request(2, prompt, 5));
  run.run();
  EXPECT_EQ(run.result(1).cached_tokens, 0U);
  EXPECT_EQ(run.result(2).cached_tokens, 96U);
  EXPECT_EQ(run.result(2).computed_tokens, 4U);
  EXPECT_EQ(run.result(2).choices[0].text, run.result(1).choices[0].text);
}

TEST(PrefixCaching, AnotherSaltFindsNothing) {
  EngineRun run(toy_engine(roomy_limits()));
  const std::string prompt = letters(100);
  run.add(greedy_request(1, prompt, 5));
  run.run();
  for (const engine::CacheSalt salt : {engine::CacheSalt{0, 1}, engine::CacheSalt{1, 0}}) {
    auto stranger = greedy_request(10 + salt.low, prompt, 5);
    stranger.salt = salt;
    run.add(stranger);
    run.run();
    EXPECT_EQ(run.result(stranger.id).cached_tokens, 0U);
    EXPECT_EQ(run.result(stranger.id).choices[0].text, run.result(1).choices[0].text);
  }
  run.add(greedy_request(3, prompt, 5));
  run.run();
  EXPECT_EQ(run.result(3).cached_tokens, 96U) << "the first salt still finds its blocks";
}

TEST(PrefixCaching, APromptOfWholeBlocksStillComputesItsLastToken) {
  EngineRun run(toy_engine(roomy_limits()));
  run.add(greedy_request(1, letters(64), 5));
  run.run();
  run.add(greedy_request(2, letters(64), 5));
  run.run();
  EXPECT_EQ(run.result(2).cached_tokens, 48U);
  EXPECT_EQ(run.result(2).choices[0].text, run.result(1).choices[0].text);
}

TEST(PrefixCaching, GeneratedTokensAreFoundByTheNextTurn) {
  EngineRun run(toy_engine(roomy_limits()));
  auto first = greedy_request(1, letters(30), 40);
  first.stop.ignore_eos = true;
  run.add(first);
  run.run();
  auto next = first;
  next.id = 2;
  const auto& answer = run.result(1).choices[0].tokens;
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
  run.add(next);
  run.run();
  // Of the 70 tokens the last was sampled but never fed, so 64 lie in full blocks.
  EXPECT_EQ(run.result(2).cached_tokens, 64U);
  EXPECT_EQ(run.result(2).choices[0].text, run_alone(next).choices[0].text);
}

// A long prompt is cut into chunks; whoever shares its prefix must not read what is not written.
TEST(PrefixCaching, ABlockIsVisibleOnlyAfterTheStepThatWroteIt) {
  EngineRun run(toy_engine(roomy_limits()));
  const std::string prefix = letters(160);
  std::vector<Request> requests;
  for (engine::RequestId id = 0; id < 4; ++id) {
    const std::string own = letters(8, static_cast<std::uint32_t>(id) + 9);
    requests.push_back(greedy_request(id, prefix + own, 20));
    run.add(requests.back());
    run.step();
  }
  run.run();
  for (const Request& made : requests) {
    EXPECT_EQ(run.result(made.id).choices[0].text, run_alone(made).choices[0].text) << made.id;
  }
  EXPECT_EQ(run.result(3).cached_tokens, 160U);
}

TEST(PrefixCaching, SimultaneousRequestsComputeTheirCommonPrefixOnce) {
  ToyModelLog log;
  EngineRun run(toy_engine(roomy_limits(), {}, &log));
  const std::string prefix = letters(320);
  for (engine::RequestId id = 0; id < 8; ++id) {
    run.add(greedy_request(id, prefix + letters(16, static_cast<std::uint32_t>(id) + 50), 1));
  }
  run.run();
  EXPECT_EQ(log.rows, 320U + 8 * 16);
}

TEST(Choices, FourChoicesComputeThePromptOnceAndDiverge) {
  ToyModelLog log;
  EngineRun run(toy_engine(roomy_limits(), {}, &log));
  auto wanted = greedy_request(1, letters(100), 30);
  wanted.choices = 4;
  wanted.sampling.temperature = 1.0F;
  wanted.sampling.seed = 5;
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  run.run();
  EXPECT_EQ(log.rows, 100U + 4 * 29);
  EXPECT_EQ(log.copies, 3U);
  const RequestResult& result = run.result(1);
  for (std::uint32_t c = 0; c < 4; ++c) {
    EXPECT_EQ(result.choices[c].tokens.size(), 30U);
    EXPECT_EQ(result.choices[c].pauses, 0U);
    for (std::uint32_t d = 0; d < c; ++d) EXPECT_NE(result.choices[c].text, result.choices[d].text);
  }
}

TEST(Choices, EachChoiceHasTheTextItHasWithOtherNeighbours) {
  auto wanted = greedy_request(1, letters(37), 40);
  wanted.sampling.temperature = 1.0F;
  wanted.sampling.seed = 11;
  wanted.choices = 8;
  const RequestResult eight = run_alone(wanted);
  wanted.choices = 2;
  const RequestResult two = run_alone(wanted);
  EXPECT_EQ(two.choices[0].text, eight.choices[0].text);
  EXPECT_EQ(two.choices[1].text, eight.choices[1].text);
}

TEST(Choices, ThatFindNoSlotOrBlockWaitAndAreComputedAgain) {
  for (const bool caching : {true, false}) {
    Limits limits = roomy_limits();
    limits.max_num_seqs = 2;
    limits.enable_prefix_caching = caching;
    EngineRun run(toy_engine(limits));
    auto wanted = greedy_request(1, letters(100), 12);
    wanted.choices = 5;
    wanted.sampling.temperature = 1.0F;
    run.add(wanted);
    run.run();
    const RequestResult alone = run_alone(wanted);
    std::uint32_t pauses = 0;
    for (std::uint32_t c = 0; c < 5; ++c) {
      EXPECT_EQ(run.result(1).choices[c].text, alone.choices[c].text);
      pauses += run.result(1).choices[c].pauses;
    }
    EXPECT_GE(pauses, 1U);
    EXPECT_EQ(run.result(1).computed_tokens, 100U);
  }
}

TEST(Choices, GreedyChoicesAreEqual) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = greedy_request(1, letters(20), 10);
  wanted.choices = 3;
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(1).choices[1].text, run.result(1).choices[0].text);
  EXPECT_EQ(run.result(1).choices[2].text, run.result(1).choices[0].text);
}

TEST(Choices, MayAllEndWithTheirFirstToken) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = greedy_request(1, letters(20), 1);
  wanted.choices = 8;
  run.add(wanted);
  run.step();
  EXPECT_TRUE(run.result(1).done);
  EXPECT_FALSE(run.has_work());
}

}  // namespace
}  // namespace turnstile::tests
