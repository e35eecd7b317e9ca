#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/block_table.h"
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::Limits;
using engine::Request;
using engine::TokenId;

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
    Limits limits = roomy_limits();
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
      engine::Engine::create(std::make_unique<ToyModel>(options), toy_tokenizer(), roomy_limits());
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().find("the tokenizer has 64 tokens, the model 63"), std::string::npos);
}

TEST(Engine, LogitsBeyondTheTokenizerAreNeverChosen) {
  ToyModelOptions options;
  options.vocab_size = 200;
  EngineRun run(toy_engine(roomy_limits(), options));
  auto wanted = greedy_request(1, "abc", 200);
  wanted.stop.ignore_eos = true;
  wanted.sampling.temperature = 2.0F;
  run.add(wanted);
  run.run();
  for (const TokenId token : run.result(1).choices[0].tokens) EXPECT_LT(token, kToyVocabulary);
}

TEST(Engine, AnswersUntilMaxTokensAndFreesEverything) {
  EngineRun run(toy_engine(roomy_limits()));
  EXPECT_FALSE(run.has_work());
  auto wanted = greedy_request(7, "hello", 9);
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
  EngineRun run(toy_engine(roomy_limits()));
  run.step();
  EXPECT_TRUE(run.output().events.empty());
  EXPECT_EQ(run.output().stats.total_blocks, 300U);
}

TEST(Engine, ReportsWhatItComputesChunkByChunk) {
  EngineRun run(toy_engine(roomy_limits()));
  run.add(greedy_request(1, letters(150), 3));
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
  EngineRun run(toy_engine(roomy_limits()));
  std::vector<Request> requests;
  for (engine::RequestId id = 0; id < 30; ++id) {
    auto made = greedy_request(id, letters(5 + 7 * id, static_cast<std::uint32_t>(id)), 40);
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
  EngineRun run(toy_engine(roomy_limits(), options));
  auto wanted = greedy_request(1, "abc", 40);
  wanted.sampling.temperature = 100.0F;
  wanted.stop.ignore_eos = true;
  run.add(wanted);
  run.run();
  const auto& tokens = run.result(1).choices[0].tokens;
  EXPECT_GT(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 20U);
}

TEST(Cancel, EndsEveryOpenChoiceInTheNextStepInEveryPhase) {
  Limits limits = roomy_limits();
  limits.max_num_seqs = 4;
  for (const std::uint32_t choices : {1U, 4U}) {
    for (int steps_before = 0; steps_before < 8; ++steps_before) {
      EngineRun run(toy_engine(limits));
      auto wanted = greedy_request(1, letters(150), 100);
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
  EngineRun run(toy_engine(roomy_limits()));
  run.add(greedy_request(1, "abc", 2));
  run.run();
  run.cancel(1);
  run.cancel(99);
  run.step();
  EXPECT_TRUE(run.output().events.empty());
}

TEST(Cancel, BringsTheTextThatWasHeldBack) {
  EngineRun run(toy_engine(roomy_limits()));
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
  EngineRun run(toy_engine(roomy_limits(), options));
  auto bad = greedy_request(1, "bca", 5);
  bad.choices = 2;
  run.add(bad);
  auto good = greedy_request(2, "bcd", 5);
  good.sampling.logit_bias = {{0, -1000.0F}};
  run.add(good);
  run.run();
  EXPECT_EQ(run.result(1).choices[0].finish, FinishReason::Fault);
  EXPECT_EQ(run.result(1).choices[1].finish, FinishReason::Fault);
  EXPECT_NE(run.result(2).choices[0].finish, FinishReason::Fault);
}

TEST(Logprobs, AreReportedWithTheirTokens) {
  EngineRun run(toy_engine(roomy_limits()));
  auto wanted = greedy_request(1, "abc", 12);
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
    Limits limits = roomy_limits();
    limits.max_model_len = 128;
    limits.kv_cache_blocks = 9;
    limits.enable_prefix_caching = caching;
    EngineRun run(toy_engine(limits));
    std::vector<Request> requests;
    for (engine::RequestId id = 0; id < 5; ++id) {
      auto made = greedy_request(id, letters(20, static_cast<std::uint32_t>(id) + 3), 90);
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
