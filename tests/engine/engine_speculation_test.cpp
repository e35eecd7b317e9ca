// Speculation as seen from outside the engine: the same text in fewer steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/repeats.h"
#include "tests/support/speculation_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::Limits;
using engine::Request;

Limits speculating(std::uint32_t guesses = 4) {
  Limits limits = roomy_limits();
  limits.speculation = {
      .num_speculative_tokens = guesses, .prompt_lookup_min = 1, .prompt_lookup_max = 4};
  return limits;
}

ToyModelOptions habitual(float habit = 9.0F) {
  ToyModelOptions options;
  options.habit = habit;  // 9: more than the noise, so that every guess comes true
  return options;
}

TEST(Speculation, ATextThatRepeatsTakesFarFewerStepsAndIsTheSame) {
  EngineRun run(toy_engine(speculating(), habitual()));
  run.add(long_request());
  const Sums sums = run_through(run);
  EXPECT_EQ(run.result(1).choices[0].tokens,
            run_alone(long_request(), habitual()).choices[0].tokens);
  EXPECT_LT(sums.steps, 80U) << "200 tokens, up to five a step";
  EXPECT_GT(sums.accepted, 120U);
}

TEST(Speculation, CountsGuessesAndThoseThatCameTrue) {
  ToyModelLog log;
  EngineRun run(toy_engine(speculating(), habitual(6.0F), &log));
  run.add(long_request());
  const Sums sums = run_through(run);
  EXPECT_GT(sums.draft_tokens, sums.accepted) << "some guesses were wrong";
  EXPECT_GT(sums.accepted, 0U);
  // Every token but the last is computed, and every wrong guess.
  EXPECT_EQ(log.rows, 20U + 199 + sums.draft_tokens - sums.accepted);
  EXPECT_EQ(sums.steps, 200U - sums.accepted);
  EXPECT_LE(sums.drafts, sums.draft_tokens);
}

TEST(Speculation, SampledTextIsIdenticalToo) {
  for (const float habit : {1.0F, 3.0F, 6.0F}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Request request = long_request();
      request.sampling.temperature = 0.8F;
      request.sampling.seed = seed;
      request.sampling.top_logprobs = 3;
      request.sampling.frequency_penalty = 0.1F;
      EngineRun run(toy_engine(speculating(6), habitual(habit)));
      run.add(request);
      run.run();
      const RequestResult alone = run_alone(request, habitual(habit));
      EXPECT_EQ(run.result(1).choices[0].tokens, alone.choices[0].tokens);
      EXPECT_EQ(run.result(1).choices[0].logprobs, alone.choices[0].logprobs);
      ASSERT_EQ(run.result(1).choices[0].top_logprobs.size(), 3U * 200);
      EXPECT_EQ(run.result(1).choices[0].top_logprobs[599].token,
                alone.choices[0].top_logprobs[599].token);
    }
  }
}

// The row of a guess may be in vain; a row of somebody who rests is a token.
TEST(Speculation, NobodyGuessesWhileOthersRest) {
  EngineRun run(toy_engine(speculating(), habitual()));
  for (engine::RequestId id = 1; id <= 4; ++id) {
    Request request = long_request(id);
    request.priority = id == 1 ? 0 : 1;
    request.token_gap_ms = id == 1 ? 26.0F : 10'000.0F;
    run.add(request);
  }
  std::uint32_t rested = 0;
  std::uint32_t guesses = 0;
  while (run.has_work()) {
    run.step();
    const auto& stats = run.output().stats;
    run.observe_step(20.0 + 2.0 * stats.rows);
    guesses += stats.draft_tokens;
    const std::uint32_t sequences = stats.rows - stats.draft_tokens;
    if (stats.prompt_rows > 0 || sequences >= stats.running_sequences) continue;
    ++rested;
    EXPECT_EQ(stats.draft_tokens, 0U);
  }
  EXPECT_GT(rested, 50U);
  EXPECT_GT(guesses, 50U) << "when nobody is in a hurry any more";
}

struct BesidePrompts {
  std::uint32_t steps = 0;
  std::uint32_t draft_tokens = 0;
  std::uint32_t accepted = 0;
  std::uint32_t draft_tokens_elsewhere = 0;
};

// How long a step takes on a machine.
using Machine = std::function<double(const engine::StepStats&)>;

Machine linear(double base_ms, double row_ms, double guess_ms = 0.0) {
  return [=](const engine::StepStats& stats) {
    return base_ms + row_ms * stats.rows + guess_ms * stats.draft_tokens;
  };
}

// Streams that asked for a token gap of 60 ms and, once they are guessed for or do without for 100
// steps, a prompt of 400 tokens in their midst.
BesidePrompts read_a_prompt_beside(EngineRun& run, engine::RequestId streams,
                                   const Machine& machine) {
  BesidePrompts beside;
  for (engine::RequestId id = 1; id <= streams; ++id) {
    Request request = long_request(id);
    request.token_gap_ms = 60.0F;
    run.add(request);
  }
  bool is_asked = false;
  while (run.has_work()) {
    if (!is_asked && (beside.draft_tokens_elsewhere >= 20 || run.steps() == 100)) {
      run.add(greedy_request(9, letters(400, 7), 4));
      is_asked = true;
    }
    run.step();
    const auto& stats = run.output().stats;
    const double duration_ms = machine(stats);
    run.observe_step(duration_ms);
    if (stats.prompt_rows == 0) beside.draft_tokens_elsewhere += stats.draft_tokens;
    if (!is_asked || stats.prompt_rows == 0) continue;
    ++beside.steps;
    beside.draft_tokens += stats.draft_tokens;
    beside.accepted += stats.accepted_tokens;
    EXPECT_LE(16 * stats.draft_tokens, stats.prompt_rows + 15);
    EXPECT_LE(duration_ms, 60.0);
  }
  return beside;
}

TEST(Speculation, GuessesAreVerifiedInTheStepsThatReadAPrompt) {
  EngineRun run(toy_engine(speculating(), habitual()));
  const BesidePrompts beside = read_a_prompt_beside(run, 1, linear(6.0, 1.0));
  EXPECT_GE(beside.steps, 7U);
  EXPECT_GE(beside.accepted, 2 * beside.steps) << "of at most three or four a step";
  EngineRun two(toy_engine(speculating(), habitual()));
  const BesidePrompts beside_two = read_a_prompt_beside(two, 2, linear(12.0, 1.0));
  EXPECT_GE(beside_two.accepted, 2 * beside_two.steps) << "of both together as many";
  Request request = long_request();
  EXPECT_EQ(run.result(1).choices[0].tokens, run_alone(request, habitual()).choices[0].tokens);
  EXPECT_EQ(run.result(9).choices[0].tokens,
            run_alone(greedy_request(9, letters(400, 7), 4), habitual()).choices[0].tokens);
}

// Of two streams a likely guess is worth its row, of three none is.
TEST(Speculation, NoGuessIsMadeBesideAPromptThatWillNotPayAfterIt) {
  EngineRun run(toy_engine(speculating(), habitual()));
  const BesidePrompts beside = read_a_prompt_beside(run, 2, linear(2.0, 2.0));
  EXPECT_GE(beside.steps, 12U);
  EXPECT_EQ(beside.draft_tokens, 0U);
  EXPECT_GT(beside.draft_tokens_elsewhere, 100U);
}

// The row of the prompt's sequence makes the step longer in which a guess is weighed: two tokens in
// the time of 3.5 rows. Of two tokens in the time of 2.5 no guess would be worth its row.
TEST(Speculation, AGuessBesideAPromptIsWeighedInAStepThatHoldsTheNewcomer) {
  EngineRun run(toy_engine(speculating(), habitual()));
  const BesidePrompts beside = read_a_prompt_beside(run, 1, linear(3.0, 2.0));
  EXPECT_GE(beside.steps, 12U);
  EXPECT_GE(beside.accepted, beside.steps);
}

// A machine on which a guess takes far longer than its row, which the learned cost does not know:
// steps of decodes have shown it.
TEST(Speculation, NoGuessIsMadeBesideAPromptWhereStepsOfDecodesShowedThatNonePays) {
  EngineRun run(toy_engine(speculating(), habitual()));
  const BesidePrompts beside = read_a_prompt_beside(run, 2, linear(20.0, 1.0, 15.0));
  EXPECT_GE(beside.steps, 10U);
  EXPECT_EQ(beside.draft_tokens, 0U);
  EXPECT_GE(beside.draft_tokens_elsewhere, 2U) << "trials";
}

Sums answer_on(const Machine& machine, float habit) {
  EngineRun run(toy_engine(speculating(), habitual(habit)));
  run.add(long_request(1, 400));
  Sums sums;
  while (run.has_work()) {
    run.step();
    const auto& stats = run.output().stats;
    run.observe_step(machine(stats));
    sums.drafts += stats.drafts;
    sums.draft_tokens += stats.draft_tokens;
  }
  return sums;
}

// What steps showed is trusted more than a line through steps of all sizes: where guesses are sure
// and cost 0.6 of a step, several pay, though by the learned line no more than one would. Where
// they are not so sure and cost a little less, one pays.
TEST(Speculation, ADraftIsAsLongAsPaysByWhatStepsOfDecodesShowed) {
  const Sums sure = answer_on(linear(4.0, 6.0), 9.0F);
  EXPECT_GE(sure.drafts, 40U);
  EXPECT_GE(sure.draft_tokens, 3 * sure.drafts);
  const Sums likely = answer_on(linear(19.0, 1.0, 8.0), 6.0F);
  EXPECT_GE(likely.drafts, 40U);
  EXPECT_LT(likely.draft_tokens, 2 * likely.drafts);
}

// A text in which an n-gram sees much that does not come: guesses of it need no trial, as they are
// judged without being run.
TEST(Speculation, WhereLookingUpWasOfNoUseNoNewcomerIsGuessedFor) {
  EngineRun run(toy_engine(speculating(), ToyModelOptions{}));
  std::uint32_t drafted = 0;
  for (engine::RequestId id = 0; id < 24; ++id) {
    run.add(long_request(id));
    const Sums sums = run_through(run);
    if (id >= 8) drafted += sums.draft_tokens;
  }
  EXPECT_EQ(drafted, 0U);
}

// The last token of the prompt has a step of its own, like a decode's; two choices more are born in
// it, for whose copies of a block there is just enough.
TEST(Speculation, NothingIsGuessedWhereAPromptPartsIntoChoices) {
  Limits limits = speculating();
  limits.max_model_len = 112;
  limits.max_num_batched_tokens = 78;
  limits.kv_cache_blocks = 7;
  EngineRun run(toy_engine(limits, habitual()));
  std::string prompt;
  while (prompt.size() < 79) prompt += "abcdefgh";
  Request request = greedy_request(1, prompt.substr(0, 79), 20);
  request.choices = 3;
  run.add(request);
  run.step();
  run.step();
  EXPECT_EQ(run.output().stats.rows, 1U);
  EXPECT_EQ(run.output().stats.running_sequences, 3U);
  EXPECT_EQ(run.output().stats.preemptions, 0U);
}

// A machine on which three rows take as long as one. Steps of the one stream show that guesses are
// free there, but when the nine prompts are read there will be ten streams, and no free row.
TEST(Speculation, AGuessBesidePromptsHasTheLearnedPriceAndNotThatOfFreeRows) {
  Limits limits = speculating(2);
  limits.max_num_seqs = 16;
  limits.max_num_batched_tokens = 256;
  limits.kv_cache_blocks = 600;
  EngineRun run(toy_engine(limits, habitual()));
  run.add(long_request(1, 400));
  std::uint32_t crowds = 0;
  std::uint32_t beside = 0;
  std::uint32_t alone = 0;
  while (run.has_work()) {
    if (run.output().stats.running_sequences == 1 && run.steps() % 12 == 11) {
      ++crowds;
      for (std::uint32_t id = 10 * crowds + 1; id <= 10 * crowds + 9; ++id) {
        run.add(greedy_request(id, letters(20, id), 1));
      }
    }
    run.step();
    const auto& stats = run.output().stats;
    run.observe_step(std::max(30.0, 10.0 * stats.rows));
    (stats.prompt_rows > 0 ? beside : alone) += stats.draft_tokens;
  }
  EXPECT_GE(crowds, 5U);
  EXPECT_EQ(beside, 0U);
  EXPECT_GT(alone, 100U);
}

// The model's distribution is the same at every position, so all tokens of all runs are draws from
// it. A wrong rule of acceptance would favour or spare the token that is guessed most.
TEST(Speculation, TokensKeepTheirDistribution) {
  ToyModelOptions options;
  options.always = 7;  // its logit is 1, all others are 0
  std::vector<double> counts(kToyVocabulary, 0.0);
  double total = 0.0;
  std::uint32_t accepted = 0;
  std::uint32_t rejected = 0;
  const std::uint32_t seeds = kAddressSanitizer ? 40 : 100;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Request request = long_request(1, 400);
    request.sampling.temperature = 0.2F;  // e^5 / (63 + e^5) = 0.70
    request.sampling.seed = seed;
    EngineRun run(toy_engine(speculating(), options));
    run.add(request);
    const Sums sums = run_through(run);
    accepted += sums.accepted;
    rejected += sums.draft_tokens - sums.accepted;
    for (const engine::TokenId token : run.result(1).choices[0].tokens) {
      counts[token] += 1.0;
      total += 1.0;
    }
  }
  EXPECT_GT(accepted, 5 * seeds);
  EXPECT_GT(rejected, 5 * seeds);
  const double favoured = std::exp(5.0);
  double chi_square = 0.0;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    const double expected = total * (token == 7 ? favoured : 1.0) / (63.0 + favoured);
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  EXPECT_LT(chi_square, 103.4) << "99.9 % of 63 degrees of freedom";
}

TEST(Speculation, AStopStringInTheMiddleOfADraftEndsTheTextThere) {
  const Request plain = long_request();
  const std::string text = run_alone(plain, habitual()).choices[0].text;
  for (std::size_t at = 60; at < 76; ++at) {
    Request request = plain;
    request.stop.strings = {text.substr(at, 12)};
    EngineRun run(toy_engine(speculating(), habitual()));
    run.add(request);
    run.run();
    const RequestResult alone = run_alone(request, habitual());
    EXPECT_EQ(run.result(1).choices[0].text, alone.choices[0].text);
    EXPECT_EQ(run.result(1).choices[0].tokens, alone.choices[0].tokens);
    EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::StopString);
  }
}

// Every step gives the one stream a token, and every accepted guess gives it one more.
TEST(Speculation, WhatCameTrueBehindTheEndOfATextIsNotAccepted) {
  const std::string text = run_alone(long_request(), habitual()).choices[0].text;
  for (std::size_t at = 60; at < 76; ++at) {
    Request ends_in_text = long_request();
    ends_in_text.stop.strings = {text.substr(at, 12)};
    Request ends_by_token = long_request();
    ends_by_token.stop.min_tokens = static_cast<std::uint32_t>(at);
    ends_by_token.stop.token_ids = {5};
    for (const Request& request : {ends_in_text, ends_by_token}) {
      EngineRun run(toy_engine(speculating(), habitual()));
      run.add(request);
      const Sums sums = run_through(run);
      const ChoiceResult& choice = run.result(1).choices[0];
      const std::size_t end_tokens = choice.finish == FinishReason::StopToken ? 1 : 0;
      EXPECT_EQ(choice.tokens.size() + end_tokens, sums.steps + sums.accepted) << at;
      EXPECT_GT(sums.accepted, 1U);
    }
  }
}

TEST(Speculation, EndTokensCountOnlyAfterMinTokensAlsoWithinADraft) {
  for (std::uint32_t min_tokens = 0; min_tokens < 100; ++min_tokens) {
    Request request = greedy_request(1, letters(20), 150);
    request.stop.min_tokens = min_tokens;
    request.stop.token_ids = {5};  // comes by every eight tokens
    EngineRun run(toy_engine(speculating(), habitual()));
    run.add(request);
    run.run();
    const RequestResult alone = run_alone(request, habitual());
    EXPECT_EQ(run.result(1).choices[0].tokens, alone.choices[0].tokens) << min_tokens;
    EXPECT_EQ(run.result(1).choices[0].end_token, alone.choices[0].end_token) << min_tokens;
  }
}

TEST(Speculation, MaxTokensAreNeverExceeded) {
  for (std::uint32_t max_tokens = 1; max_tokens < 40; ++max_tokens) {
    EngineRun run(toy_engine(speculating(), habitual()));
    run.add(long_request(1, max_tokens));
    run.run();
    EXPECT_EQ(run.result(1).choices[0].tokens.size(), max_tokens);
    EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Length);
  }
}

TEST(Speculation, NoGuessesAreRunWhenManyStreamsFillTheStep) {
  Limits limits = speculating();
  limits.max_num_seqs = 64;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 2'000;
  EngineRun run(toy_engine(limits, habitual()));
  for (engine::RequestId id = 0; id < 64; ++id) run.add(long_request(id, 60));
  std::uint32_t drafted = 0;
  while (run.has_work()) {
    run.step();
    if (run.output().stats.running_sequences == 64) drafted += run.output().stats.draft_tokens;
  }
  EXPECT_EQ(drafted, 0U);
}

TEST(Speculation, AcceptedTokensAreFoundByTheNextTurnAndRejectedOnesAreNot) {
  for (const float habit : {2.0F, 9.0F}) {
    EngineRun run(toy_engine(speculating(), habitual(habit)));
    const Request first = long_request(1, 100);
    run.add(first);
    run.run();
    Request next = first;
    next.id = 2;
    const auto& answer = run.result(1).choices[0].tokens;
    next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
    run.add(next);
    run.run();
    EXPECT_EQ(run.result(2).cached_tokens, 112U);
    EXPECT_EQ(run.result(2).choices[0].text, run_alone(next, habitual(habit)).choices[0].text);
  }
}

TEST(Speculation, GuessesTakeNoBlockThatAnotherSequenceWillNeed) {
  Limits limits = speculating();
  limits.max_model_len = 160;
  limits.max_num_seqs = 2;
  limits.kv_cache_blocks = 12;
  limits.enable_prefix_caching = false;
  EngineRun with(toy_engine(limits, habitual()));
  limits.speculation = {};
  EngineRun without(toy_engine(limits, habitual()));
  for (EngineRun* run : {&with, &without}) {
    for (engine::RequestId id = 1; id <= 2; ++id) run->add(long_request(id, 130));
    run->run();
  }
  EXPECT_EQ(with.result(1).choices[0].pauses, without.result(1).choices[0].pauses);
  EXPECT_EQ(with.result(1).choices[0].text, without.result(1).choices[0].text);
  EXPECT_EQ(with.result(2).choices[0].text, without.result(2).choices[0].text);
}

TEST(Speculation, WrongLimitsAreNamed) {
  Limits limits = speculating();
  limits.speculation.num_speculative_tokens = engine::kMaxSpeculativeTokens + 1;
  auto created = engine::Engine::create(std::make_unique<ToyModel>(), toy_tokenizer(), limits);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().find("num_speculative_tokens"), std::string::npos);
  limits = speculating();
  limits.speculation.prompt_lookup_min = 5;
  created = engine::Engine::create(std::make_unique<ToyModel>(), toy_tokenizer(), limits);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().find("prompt_lookup_min"), std::string::npos);
}

}  // namespace
}  // namespace turnstile::tests
