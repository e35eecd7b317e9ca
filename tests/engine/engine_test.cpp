#include "engine/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/block_table.h"
#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::Limits;
using engine::Request;
using engine::TokenId;

Limits roomy() {
  Limits limits;
  limits.max_model_len = 512;
  limits.max_num_seqs = 8;
  limits.max_num_batched_tokens = 64;
  limits.kv_cache_blocks = 300;
  return limits;
}

Request request(engine::RequestId id, std::string_view prompt, std::uint32_t max_tokens) {
  Request made;
  made.id = id;
  made.prompt = toy_tokens(prompt);
  made.stop.max_tokens = max_tokens;
  made.sampling.temperature = 0.0F;
  return made;
}

std::string letters(std::size_t count, std::uint32_t seed = 1) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    text += static_cast<char>('a' + (seed >> 24) % 26);
  }
  return text;
}

// ---- creation

TEST(EngineCreate, NamesTheLimitThatDoesNotFit) {
  struct Case {
    const char* says;
    void (*spoil)(Limits&);
  };
  const std::vector<Case> cases = {
      {"max_model_len must be at least 2", [](Limits& l) { l.max_model_len = 1; }},
      {"the model was made for 4096 tokens", [](Limits& l) { l.max_model_len = 5000; }},
      {"max_num_seqs must be at least 1", [](Limits& l) { l.max_num_seqs = 0; }},
      {"a row for each of max_num_seqs = 8", [](Limits& l) { l.max_num_batched_tokens = 7; }},
      {"must be at least max_model_len = 512", [](Limits& l) { l.enable_chunked_prefill = false; }},
      {"one sequence of max_model_len = 512 tokens needs 32",
       [](Limits& l) { l.kv_cache_blocks = 31; }},
      {"the KV cache has 0 blocks", [](Limits& l) { l.kv_cache_blocks = 0; }},
      {"more than", [](Limits& l) { l.kv_cache_blocks = ~std::size_t{0}; }},
  };
  for (const Case& c : cases) {
    Limits limits = roomy();
    c.spoil(limits);
    const auto created =
        engine::Engine::create(std::make_unique<ToyModel>(), toy_tokenizer(), limits);
    ASSERT_FALSE(created) << c.says;
    EXPECT_NE(created.error().find(c.says), std::string::npos) << created.error();
  }
}

TEST(EngineCreate, RefusesATokenizerLargerThanTheModel) {
  ToyModelOptions options;
  options.vocab_size = 63;
  const auto created =
      engine::Engine::create(std::make_unique<ToyModel>(options), toy_tokenizer(), roomy());
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().find("the tokenizer has 64 tokens, the model 63"), std::string::npos);
}

TEST(Engine, LogitsBeyondTheTokenizerAreNeverChosen) {
  ToyModelOptions options;
  options.vocab_size = 200;
  EngineRun run(toy_engine(roomy(), options));
  auto wanted = request(1, "abc", 200);
  wanted.stop.ignore_eos = true;
  wanted.sampling.temperature = 2.0F;
  run.add(wanted);
  run.run();
  for (const TokenId token : run.result(1).choices[0].tokens) EXPECT_LT(token, kToyVocabulary);
}

// ---- the main path

TEST(Engine, AnswersUntilMaxTokensAndFreesEverything) {
  EngineRun run(toy_engine(roomy()));
  EXPECT_FALSE(run.has_work());
  auto wanted = request(7, "hello", 9);
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  EXPECT_TRUE(run.has_work());
  run.run();
  const RequestResult& result = run.result(7);
  EXPECT_EQ(result.choices[0].tokens.size(), 9U);
  EXPECT_EQ(result.choices[0].finish, FinishReason::Length);
  EXPECT_EQ(result.computed_tokens, 5U);
  EXPECT_EQ(result.recomputed_tokens, 0U);
  EXPECT_EQ(run.steps(), 9U);
  EXPECT_EQ(run.output().stats.free_blocks, 300U);
}

TEST(Engine, AnIdleStepDoesNothing) {
  EngineRun run(toy_engine(roomy()));
  run.step();
  EXPECT_TRUE(run.output().events.empty());
  EXPECT_EQ(run.output().stats.total_blocks, 300U);
}

TEST(Engine, ReportsWhatItComputesChunkByChunk) {
  EngineRun run(toy_engine(roomy()));
  run.add(request(1, letters(150), 3));
  std::vector<std::uint32_t> chunks;
  for (int i = 0; i < 3; ++i) {
    run.step();
    EXPECT_EQ(run.output().stats.prompt_rows, run.output().stats.rows);
    for (const auto& event : run.output().events) {
      if (event.kind == engine::EventKind::PromptComputed) chunks.push_back(event.tokens);
      EXPECT_EQ(event.held_blocks, engine::blocks_for(150));
    }
  }
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{64, 64, 22}));
  run.step();
  EXPECT_EQ(run.output().stats.rows, 1U);
  EXPECT_EQ(run.output().stats.prompt_rows, 0U);
}

TEST(Engine, ManyRequestsAtOnceGetTheirSoloTexts) {
  EngineRun run(toy_engine(roomy()));
  std::vector<Request> requests;
  for (engine::RequestId id = 0; id < 30; ++id) {
    auto made = request(id, letters(5 + 7 * id, static_cast<std::uint32_t>(id)), 40);
    made.sampling.temperature = id % 2 == 0 ? 0.0F : 0.8F;
    made.sampling.seed = id;
    requests.push_back(made);
    run.add(made);
  }
  run.run();
  for (const Request& made : requests) {
    EXPECT_EQ(run.result(made.id).choices[0].text, run_alone(made).choices[0].text) << made.id;
  }
}

// Equal logits at every step: only fresh random numbers make the tokens differ.
TEST(Engine, EveryPositionIsDrawnAnew) {
  ToyModelOptions options;
  options.always = 3;
  EngineRun run(toy_engine(roomy(), options));
  auto wanted = request(1, "abc", 40);
  wanted.sampling.temperature = 100.0F;
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  run.run();
  const auto& tokens = run.result(1).choices[0].tokens;
  EXPECT_GT(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 20U);
}

// ---- prefix cache

TEST(PrefixCaching, TheSecondRequestFindsThePromptOfTheFirst) {
  EngineRun run(toy_engine(roomy()));
  const std::string prompt = letters(100);
  run.add(request(1, prompt, 5));
  run.run();
  run.add(request(2, prompt, 5));
  run.run();
  EXPECT_EQ(run.result(1).cached_tokens, 0U);
  EXPECT_EQ(run.result(2).cached_tokens, 96U);
  EXPECT_EQ(run.result(2).computed_tokens, 4U);
  EXPECT_EQ(run.result(2).choices[0].text, run.result(1).choices[0].text);
}

TEST(PrefixCaching, AnotherSaltFindsNothing) {
  EngineRun run(toy_engine(roomy()));
  const std::string prompt = letters(100);
  run.add(request(1, prompt, 5));
  run.run();
  for (const engine::CacheSalt salt : {engine::CacheSalt{0, 1}, engine::CacheSalt{1, 0}}) {
    auto stranger = request(10 + salt.low, prompt, 5);
    stranger.salt = salt;
    run.add(stranger);
    run.run();
    EXPECT_EQ(run.result(stranger.id).cached_tokens, 0U);
    EXPECT_EQ(run.result(stranger.id).choices[0].text, run.result(1).choices[0].text);
  }
  run.add(request(3, prompt, 5));
  run.run();
  EXPECT_EQ(run.result(3).cached_tokens, 96U) << "the first salt still finds its blocks";
}

TEST(PrefixCaching, APromptOfWholeBlocksStillComputesItsLastToken) {
  EngineRun run(toy_engine(roomy()));
  run.add(request(1, letters(64), 5));
  run.run();
  run.add(request(2, letters(64), 5));
  run.run();
  EXPECT_EQ(run.result(2).cached_tokens, 48U);
  EXPECT_EQ(run.result(2).choices[0].text, run.result(1).choices[0].text);
}

TEST(PrefixCaching, GeneratedTokensAreFoundByTheNextTurn) {
  EngineRun run(toy_engine(roomy()));
  auto first = request(1, letters(30), 40);
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
  EngineRun run(toy_engine(roomy()));
  const std::string prefix = letters(160);
  std::vector<Request> requests;
  for (engine::RequestId id = 0; id < 4; ++id) {
    requests.push_back(request(id, prefix + letters(8, static_cast<std::uint32_t>(id) + 9), 20));
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
  EngineRun run(toy_engine(roomy(), {}, &log));
  const std::string prefix = letters(320);
  for (engine::RequestId id = 0; id < 8; ++id) {
    run.add(request(id, prefix + letters(16, static_cast<std::uint32_t>(id) + 50), 1));
  }
  run.run();
  EXPECT_EQ(log.rows, 320U + 8 * 16);
}

// ---- choices

TEST(Choices, FourChoicesComputeThePromptOnceAndDiverge) {
  ToyModelLog log;
  EngineRun run(toy_engine(roomy(), {}, &log));
  auto wanted = request(1, letters(100), 30);
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
  auto wanted = request(1, letters(37), 40);
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
    Limits limits = roomy();
    limits.max_num_seqs = 2;
    limits.enable_prefix_caching = caching;
    EngineRun run(toy_engine(limits));
    auto wanted = request(1, letters(100), 12);
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
  EngineRun run(toy_engine(roomy()));
  auto wanted = request(1, letters(20), 10);
  wanted.choices = 3;
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(1).choices[1].text, run.result(1).choices[0].text);
  EXPECT_EQ(run.result(1).choices[2].text, run.result(1).choices[0].text);
}

TEST(Choices, MayAllEndWithTheirFirstToken) {
  EngineRun run(toy_engine(roomy()));
  auto wanted = request(1, letters(20), 1);
  wanted.choices = 8;
  run.add(wanted);
  run.step();
  EXPECT_TRUE(run.result(1).done);
  EXPECT_FALSE(run.has_work());
}

// ---- ends

Request only_token(TokenId token, std::uint32_t max_tokens) {
  auto made = request(1, "abc", max_tokens);
  made.sampling.logit_bias = {{token, 1000.0F}};
  return made;
}

TEST(Stops, AnEndOfGenerationTokenEndsWithoutTextButIsNamed) {
  for (const TokenId end : {kToyEnd, kToyTurnEnd}) {
    EngineRun run(toy_engine(roomy()));
    run.add(only_token(end, 10));
    run.run();
    const ChoiceResult& choice = run.result(1).choices[0];
    EXPECT_EQ(choice.finish, FinishReason::StopToken);
    EXPECT_EQ(choice.end_token, end);
    EXPECT_TRUE(choice.tokens.empty());
    EXPECT_EQ(choice.text, "");
  }
}

TEST(Stops, IgnoreEosGoesOnAndStopTokensStillEnd) {
  EngineRun run(toy_engine(roomy()));
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
  EngineRun run(toy_engine(roomy()));
  auto wanted = request(1, "abc", 30);
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
  EngineRun run(toy_engine(roomy()));
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
    EngineRun run(toy_engine(roomy()));
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
    auto wanted = request(1, "xyz", 120);
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
    EngineRun run(toy_engine(roomy()));
    auto wanted = only_token(kToyControl, 2);
    wanted.skip_special_tokens = skip;
    run.add(wanted);
    run.run();
    EXPECT_EQ(run.result(1).choices[0].text, skip ? "" : "<|note|><|note|>");
    EXPECT_EQ(run.result(1).choices[0].tokens.size(), 2U);
  }
}

TEST(Stops, ACharacterCutByTheLengthLimitEndsAsAReplacementCharacter) {
  EngineRun run(toy_engine(roomy()));
  auto wanted = only_token(59, 1);  // two of the three bytes of U+20AC
  run.add(wanted);
  run.run();
  EXPECT_EQ(run.result(1).choices[0].text, "\xEF\xBF\xBD");
  EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Length);
}

// ---- cancel and fault

TEST(Cancel, EndsEveryOpenChoiceInTheNextStepInEveryPhase) {
  Limits limits = roomy();
  limits.max_num_seqs = 4;
  for (const std::uint32_t choices : {1U, 4U}) {
    for (int steps_before = 0; steps_before < 8; ++steps_before) {
      EngineRun run(toy_engine(limits));
      auto wanted = request(1, letters(150), 100);
      wanted.choices = choices;
      wanted.stop.ignore_eos = true;
      run.add(wanted);
      wanted.id = 2;
      run.add(wanted);  // the same prompt: waits for the first
      for (int i = 0; i < steps_before; ++i) run.step();
      run.cancel(1);
      run.cancel(2);
      run.cancel(2);
      run.step();  // checks that both are done
      for (const engine::RequestId id : {1U, 2U}) {
        for (const ChoiceResult& choice : run.result(id).choices) {
          EXPECT_EQ(choice.finish, FinishReason::Cancelled);
        }
      }
      EXPECT_FALSE(run.has_work());
    }
  }
}

TEST(Cancel, OfAnUnknownOrFinishedRequestIsIgnored) {
  EngineRun run(toy_engine(roomy()));
  run.add(request(1, "abc", 2));
  run.run();
  run.cancel(1);
  run.cancel(99);
  run.step();
  EXPECT_TRUE(run.output().events.empty());
}

TEST(Cancel, BringsTheTextThatWasHeldBack) {
  EngineRun run(toy_engine(roomy()));
  auto wanted = only_token(*toy_tokenizer()->find_token("ab"), 30);
  wanted.stop.strings = {"abababababababx"};
  run.add(wanted);
  for (int i = 0; i < 3; ++i) run.step();
  EXPECT_EQ(run.result(1).choices[0].text, "");
  run.cancel(1);
  run.step();
  EXPECT_EQ(run.result(1).choices[0].text, "ababab");
}

TEST(Fault, LogitsThatAreNoNumbersEndOnlyTheirSequence) {
  ToyModelOptions options;
  options.fault_after = 0;  // the token "a"
  EngineRun run(toy_engine(roomy(), options));
  auto bad = request(1, "bca", 5);
  bad.choices = 2;
  run.add(bad);
  auto good = request(2, "bcd", 5);
  good.sampling.logit_bias = {{0, -1000.0F}};
  run.add(good);
  run.run();
  EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Fault);
  EXPECT_EQ(run.result(1).choices[1].finish, FinishReason::Fault);
  EXPECT_NE(run.result(2).choices[0].finish, FinishReason::Fault);
}

// ---- logprobs, pauses

TEST(Logprobs, AreReportedWithTheirTokens) {
  EngineRun run(toy_engine(roomy()));
  auto wanted = request(1, "abc", 12);
  wanted.sampling.top_logprobs = 3;
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  run.run();
  const ChoiceResult& choice = run.result(1).choices[0];
  ASSERT_EQ(choice.top_logprobs.size(), 36U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(choice.top_logprobs[3 * i].token, choice.tokens[i]) << "greedy takes the best";
    EXPECT_EQ(choice.top_logprobs[3 * i].logprob, choice.logprobs[i]);
    EXPECT_LT(choice.logprobs[i], 0.0F);
    EXPECT_GE(choice.top_logprobs[3 * i].logprob, choice.top_logprobs[3 * i + 1].logprob);
  }
}

TEST(Pauses, TextGoesOnWhereItWas) {
  for (const bool caching : {true, false}) {
    Limits limits = roomy();
    limits.max_model_len = 128;
    limits.kv_cache_blocks = 9;
    limits.enable_prefix_caching = caching;
    EngineRun run(toy_engine(limits));
    std::vector<Request> requests;
    for (engine::RequestId id = 0; id < 5; ++id) {
      auto made = request(id, letters(20, static_cast<std::uint32_t>(id) + 3), 90);
      made.stop.ignore_eos = true;
      made.priority = static_cast<std::int32_t>(id % 2);
      requests.push_back(made);
      run.add(made);
    }
    run.run();
    std::uint32_t pauses = 0;
    std::uint32_t recomputed = 0;
    for (const Request& made : requests) {
      EXPECT_EQ(run.result(made.id).choices[0].text, run_alone(made).choices[0].text);
      EXPECT_EQ(run.result(made.id).computed_tokens, 20U);
      pauses += run.result(made.id).choices[0].pauses;
      recomputed += run.result(made.id).recomputed_tokens;
    }
    EXPECT_GT(pauses, 0U);
    if (!caching) {
      EXPECT_GT(recomputed, 0U);
    }
    EXPECT_EQ(run.result(0).choices[0].pauses, 0U) << "the first in the order is never paused";
  }
}

}  // namespace
}  // namespace turnstile::tests
