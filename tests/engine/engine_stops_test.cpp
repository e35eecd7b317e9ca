// How a choice ends, and which text it leaves.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/toy_requests.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::TokenId;

TEST(Stops, AnEndOfGenerationTokenEndsWithoutTextButIsNamed) {
  for (const TokenId end : {kToyEnd, kToyTurnEnd}) {
    EngineRun run(toy_engine(roomy_limits()));
    auto wanted = only_token(end, 10);
    wanted.sampling.top_logprobs = 2;
    run.add(wanted);
    run.run();
    const ChoiceResult& choice = run.result(1).choices[0];
    EXPECT_EQ(choice.finish, FinishReason::StopToken);
    EXPECT_EQ(choice.end_token, end);
    EXPECT_LT(choice.end_logprob, 0.0F);
    EXPECT_TRUE(choice.tokens.empty());
    EXPECT_EQ(choice.text, "");
  }
}

TEST(Stops, IgnoreEosGoesOnAndStopTokensStillEnd) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = only_token(kToyEnd, 10);
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Length);
  EXPECT_EQ(run.result(1).choices[0].tokens.size(), 10U);
  wanted.id = 2;
  wanted.stop.token_ids = {kToyEnd};
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(2).choices[0].finish, FinishReason::StopToken);
  EXPECT_EQ(run.result(2).choices[0].end_token, kToyEnd);
}

TEST(Stops, MinTokensMasksEveryEndTokenBefore) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = greedy_request(1, "abc", 30);
  wanted.sampling.logit_bias = {{kToyEnd, 500.0F}, {kToyTurnEnd, 400.0F}, {7, 300.0F}};
  wanted.stop.token_ids = {7};
  wanted.stop.min_tokens = 6;
  run.add(wanted);
  run.run();
  const ChoiceResult& choice = run.result(1).choices[0];
  EXPECT_EQ(choice.tokens.size(), 6U);
  for (const TokenId token : choice.tokens) EXPECT_TRUE(token != 7 && token < kToyTurnEnd);
  EXPECT_EQ(choice.end_token, kToyEnd);
}

TEST(Stops, MinTokensHoldsForStopStringsToo) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = only_token(*toy_tokenizer()->find_token("ab"), 30);
  wanted.stop.strings = {"bab"};
  wanted.stop.min_tokens = 4;
  run.add(wanted);
  run.run();
  const ChoiceResult& choice = run.result(1).choices[0];
  // Four tokens pass unsearched; the stop ends in the sixth, and begins in the fifth.
  EXPECT_EQ(choice.text, "ababababa");
  EXPECT_EQ(choice.tokens.size(), 6U);
  EXPECT_EQ(choice.finish, FinishReason::StopString);
}

TEST(Stops, AStopStringAcrossTokensIsCutAndNamed) {
  const std::vector<std::string> stops = {"zz", "bab"};
  for (const bool include : {false, true}) {
    EngineRun run(toy_engine(roomy_limits()));
    auto wanted = only_token(*toy_tokenizer()->find_token("ab"), 30);
    wanted.stop.strings = stops;
    wanted.stop.include_stop_string = include;
    run.add(wanted);
    run.run();
    const ChoiceResult& choice = run.result(1).choices[0];
    EXPECT_EQ(choice.text, include ? "abab" : "a");
    EXPECT_EQ(choice.stop_index, 1U);
    EXPECT_EQ(choice.tokens.size(), 2U) << "the token in which it ends was generated";
  }
}

// Every text of a random model that contains the stop must end before it, whatever the tokens.
TEST(Stops, AStopStringIsNeverLeaked) {
  int stopped = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto wanted = greedy_request(1, "xyz", 120);
    wanted.sampling.temperature = 2.0F;
    wanted.sampling.seed = seed;
    const std::string full = run_alone(wanted).choices[0].text;
    if (full.size() < 12) continue;
    std::size_t begin = full.size() / 3;
    while ((static_cast<unsigned char>(full[begin]) & 0xC0U) == 0x80U) ++begin;
    std::size_t end = begin + 1 + seed % 5;
    while (end < full.size() && (static_cast<unsigned char>(full[end]) & 0xC0U) == 0x80U) ++end;
    const std::string stop = full.substr(begin, end - begin);
    wanted.stop.strings = {stop, "never there"};
    const RequestResult result = run_alone(wanted);
    const ChoiceResult& choice = result.choices[0];
    EXPECT_EQ(choice.text, full.substr(0, full.find(stop))) << "seed " << seed;
    EXPECT_EQ(choice.finish, FinishReason::StopString) << "seed " << seed;
    ++stopped;
  }
  EXPECT_GT(stopped, 50);
}

TEST(Stops, ControlTokensGiveTextOnlyWhenAskedFor) {
  for (const bool skip : {true, false}) {
    EngineRun run(toy_engine(roomy_limits()));
    auto wanted = only_token(kToyControl, 2);
    wanted.skip_special_tokens = skip;
    run.add(wanted);
    run.run();
    EXPECT_EQ(run.result(1).choices[0].text, skip ? "" : "<|note|><|note|>");
    EXPECT_EQ(run.result(1).choices[0].tokens.size(), 2U);
  }
}

TEST(Stops, ACharacterCutByTheLengthLimitEndsAsAReplacementCharacter) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = only_token(59, 1);  // two of the three bytes of U+20AC
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(1).choices[0].text, "\xEF\xBF\xBD");
  EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Length);
}

}  // namespace
}  // namespace turnstile::tests
