// A draft model as seen from outside the engine: the same text in fewer steps, at a bounded cost.
#include "engine/model_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
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

using engine::Limits;
using engine::Request;

// A draft model that agrees with the model now and then.
ToyModelOptions stranger(float habit = 0.0F) {
  ToyModelOptions options;
  options.weights = 2;
  options.habit = habit;
  return options;
}

// A ToyModel that also remembers which token it was given for each place of its cache.
class RememberingModel final : public engine::Model {
 public:
  explicit RememberingModel(const ToyModelOptions& options) : model_(options) {}

  std::size_t vocab_size() const override { return model_.vocab_size(); }
  std::size_t context_length() const override { return model_.context_length(); }
  std::size_t kv_block_bytes() const override { return model_.kv_block_bytes(); }
  bool reserve(std::size_t blocks, std::size_t tokens, std::size_t logits_rows) override {
    cells_.resize(blocks * kernels::kKvBlockTokens);
    return model_.reserve(blocks, tokens, logits_rows);
  }
  bool forward(std::span<const engine::StepSlice> slices, std::span<float> logits,
               engine::StepWatch* watch) override {
    if (!model_.forward(slices, logits, watch)) return false;
    const auto cell = [&](const engine::StepSlice& slice, std::size_t position) -> auto& {
      constexpr std::size_t kTokens = kernels::kKvBlockTokens;
      return cells_[slice.blocks[position / kTokens] * kTokens + position % kTokens];
    };
    for (const engine::StepSlice& slice : slices) {
      const std::size_t end = slice.first_position + slice.tokens.size();
      for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
        cell(slice, slice.first_position + i) = slice.tokens[i];
      }
      if (!first_text.empty()) continue;
      for (std::size_t p = 0; p < end; ++p) first_text.push_back(cell(slice, p));
    }
    return true;
  }
  void copy_block(kernels::BlockId, kernels::BlockId) override {}

  // All that the first slice has before its logits, since this was cleared.
  std::vector<engine::TokenId> first_text;

 private:
  ToyModel model_;
  std::vector<engine::TokenId> cells_;
};

TEST(ModelDrafter, HasReadWhatTheTextSaysAlsoAfterWrongGuesses) {
  ToyModelOptions model = decided();
  model.habit = 5.0F;
  const Request request = long_request();
  std::vector<engine::TokenId> text = request.prompt;
  const RequestResult alone = run_alone(request, model);
  text.insert(text.end(), alone.choices[0].tokens.begin(), alone.choices[0].tokens.end());
  auto remembering = std::make_unique<RememberingModel>(stranger(5.0F));
  RememberingModel& draft = *remembering;
  auto created = engine::Engine::create(std::make_unique<ToyModel>(model), toy_tokenizer(),
                                        drafting(), std::move(remembering));
  ASSERT_TRUE(created) << created.error();
  EngineRun run(std::move(*created));
  run.add(request);
  std::uint32_t wrong = 0;
  std::uint32_t seen = 0;
  while (run.has_work()) {
    draft.first_text.clear();
    run.step();
    wrong += run.output().stats.draft_tokens - run.output().stats.accepted_tokens;
    if (draft.first_text.empty()) continue;
    ++seen;
    ASSERT_LE(draft.first_text.size(), text.size());
    EXPECT_TRUE(std::equal(draft.first_text.begin(), draft.first_text.end(), text.begin())) << seen;
  }
  EXPECT_GT(seen, 20U);
  EXPECT_GT(wrong, 5U);
}

// Guesses are declined while many others are there: the text goes on between two guesses.
TEST(ModelDrafter, ReadsWhatWasSaidWhileNothingWasGuessed) {
  const Request request = long_request();
  std::vector<engine::TokenId> text = request.prompt;
  const RequestResult alone = run_alone(request, decided());
  text.insert(text.end(), alone.choices[0].tokens.begin(), alone.choices[0].tokens.end());
  auto remembering = std::make_unique<RememberingModel>(decided());
  RememberingModel& draft = *remembering;
  Limits limits = drafting();
  limits.max_num_seqs = 64;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 2'000;
  auto created = engine::Engine::create(std::make_unique<ToyModel>(decided()), toy_tokenizer(),
                                        limits, std::move(remembering));
  ASSERT_TRUE(created) << created.error();
  EngineRun run(std::move(*created));
  run.add(request);
  Sums sums;
  std::uint32_t declined = 0;
  std::uint32_t drafts_before = 0;
  while (run.has_work()) {
    draft.first_text.clear();
    run.step();
    ++sums.steps;
    sums.drafts += run.output().stats.drafts;
    sums.draft_tokens += run.output().stats.draft_tokens;
    sums.accepted += run.output().stats.accepted_tokens;
    if (sums.steps == 15) {
      drafts_before = sums.drafts;
      for (engine::RequestId id = 2; id < 65; ++id) run.add(long_request(id, 7));
    }
    if (run.output().stats.running_sequences == 64) ++declined;
    if (run.output().stats.running_sequences > 1 || draft.first_text.empty()) continue;
    ASSERT_LE(draft.first_text.size(), text.size());
    EXPECT_TRUE(std::equal(draft.first_text.begin(), draft.first_text.end(), text.begin()));
  }
  EXPECT_GT(declined, 3U);
  EXPECT_GT(drafts_before, 0U);
  EXPECT_GT(sums.drafts, drafts_before + 10U);
  EXPECT_EQ(sums.accepted, sums.draft_tokens);
  EXPECT_EQ(run.result(1).choices[0].tokens, alone.choices[0].tokens);
}

TEST(ModelDrafter, OfTheModelItselfEveryGuessComesTrue) {
  for (const float temperature : {0.0F, 1.0F}) {
    Request request = long_request();
    request.sampling.temperature = temperature;
    EngineRun run(toy_engine_with_draft(drafting(), decided(), decided()));
    run.add(request);
    const Sums sums = run_through(run);
    EXPECT_EQ(run.result(1).choices[0].tokens, run_alone(request, decided()).choices[0].tokens);
    EXPECT_EQ(sums.accepted, sums.draft_tokens) << temperature;
    EXPECT_LT(sums.steps, 60U) << "200 tokens, up to five a step";
  }
}

TEST(ModelDrafter, AStrangerChangesNoText) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Request request = long_request();
    request.sampling.temperature = seed % 2 == 0 ? 0.0F : 0.8F;
    request.sampling.seed = seed;
    request.sampling.top_logprobs = 2;
    request.sampling.repetition_penalty = seed % 3 == 0 ? 1.1F : 1.0F;
    ToyModelOptions model = decided();
    model.habit = 5.0F;
    EngineRun run(toy_engine_with_draft(drafting(6), model, stranger(5.0F)));
    run.add(request);
    const Sums sums = run_through(run);
    const RequestResult alone = run_alone(request, model);
    EXPECT_EQ(run.result(1).choices[0].tokens, alone.choices[0].tokens);
    EXPECT_EQ(run.result(1).choices[0].logprobs, alone.choices[0].logprobs);
    EXPECT_GT(sums.draft_tokens, sums.accepted);
    EXPECT_GT(sums.accepted, 0U);
  }
}

TEST(ModelDrafter, AStrangerWhoseGuessesAreWrongIsAskedNoLonger) {
  ToyModelLog draft_log;
  EngineRun run(
      toy_engine_with_draft(drafting(), ToyModelOptions{}, stranger(), nullptr, &draft_log));
  for (engine::RequestId id = 0; id < 8; ++id) {
    run.add(long_request(id, 400));
    run.run();
  }
  EXPECT_LT(draft_log.forward_calls, 100U) << "of 3,200 steps";
}

// The model's distribution is the same at every position, the draft model's another one. A wrong
// rule of acceptance would favour or spare the token that is guessed most.
TEST(ModelDrafter, TokensKeepTheirDistribution) {
  ToyModelOptions model;
  model.always = 7;  // its logit is 1, all others are 0
  for (const engine::TokenId guessed : {7U, 20U}) {
    ToyModelOptions draft = stranger();
    draft.always = guessed;
    std::vector<double> counts(kToyVocabulary, 0.0);
    double total = 0.0;
    Sums all;
    for (std::uint64_t seed = 0; seed < (kAddressSanitizer ? 20 : 60); ++seed) {
      Request request = long_request(1, 400);
      request.sampling.temperature = 0.2F;  // e^5 / (63 + e^5) = 0.70
      request.sampling.seed = seed;
      EngineRun run(toy_engine_with_draft(drafting(), model, draft));
      run.add(request);
      const Sums sums = run_through(run);
      all.accepted += sums.accepted;
      all.draft_tokens += sums.draft_tokens;
      for (const engine::TokenId token : run.result(1).choices[0].tokens) {
        counts[token] += 1.0;
        total += 1.0;
      }
    }
    EXPECT_GT(all.draft_tokens, 100U);
    EXPECT_EQ(all.accepted == all.draft_tokens, guessed == 7) << "the same distribution, or not";
    const double favoured = std::exp(5.0);
    double chi_square = 0.0;
    for (std::size_t token = 0; token < counts.size(); ++token) {
      const double expected = total * (token == 7 ? favoured : 1.0) / (63.0 + favoured);
      chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
    }
    EXPECT_LT(chi_square, 103.4) << "99.9 % of 63 degrees of freedom; guessing " << guessed;
  }
}

// A machine: what a row more takes in a step, and a pass of the draft model, in steps of one row.
struct Machine {
  double row = 0.1;
  double pass = 0.1;
};

// The time that answers of one stream take, in steps of one row.
double time_of_answers(EngineRun run, const Machine& machine, const ToyModelLog& draft_log) {
  double time = 0.0;
  for (engine::RequestId id = 0; id < 12; ++id) {
    run.add(long_request(id));
    while (run.has_work()) {
      const std::size_t calls = draft_log.forward_calls;
      const std::size_t rows = draft_log.rows;
      run.step();
      const auto passes = static_cast<double>(draft_log.forward_calls - calls);
      const double read = static_cast<double>(draft_log.rows - rows) - passes;
      const double step = 1.0 + machine.row * (run.output().stats.rows - 1.0) +
                          machine.pass * (passes + 0.15 * read);
      run.observe_step(5.0 * step);
      time += step;
    }
  }
  return time;
}

double gain_of_drafts(const ToyModelOptions& draft, const Machine& machine) {
  ToyModelOptions model = decided();
  model.habit = draft.habit;
  ToyModelLog draft_log;
  const double with = time_of_answers(
      EngineRun(toy_engine_with_draft(drafting(6), model, draft, nullptr, &draft_log)), machine,
      draft_log);
  const double without =
      time_of_answers(EngineRun(toy_engine(roomy_limits(), model)), machine, ToyModelLog());
  return without / with;
}

TEST(ModelDrafter, IsNeverMuchSlowerThanNoneWhateverItCosts) {
  for (const ToyModelOptions& draft : {decided(), stranger(5.0F), stranger()}) {
    for (const double row : {0.03, 0.15, 0.85}) {
      for (const double pass : {0.02, 0.25, 0.75, 1.5}) {
        EXPECT_GT(gain_of_drafts(draft, {.row = row, .pass = pass}), 0.98)
            << "habit " << draft.habit << ", a row " << row << ", a pass " << pass;
      }
    }
  }
}

TEST(ModelDrafter, ThatIsFastAndRightPays) {
  EXPECT_GT(gain_of_drafts(decided(), {.row = 0.03, .pass = 0.02}), 2.0);
  EXPECT_GT(gain_of_drafts(decided(), {.row = 0.15, .pass = 0.25}), 1.4);
}

// The draft model does not know that "a" follows "h". Every text ends there, so none suffers by it.
TEST(ModelDrafter, IsNotJudgedBehindTheEndOfATextAndSoIsAskedForTheNext) {
  ToyModelOptions draft = decided(2);
  draft.habit_period = 16;
  EngineRun run(toy_engine_with_draft(drafting(), decided(), draft));
  for (engine::RequestId id = 0; id < 100; ++id) {
    Request request = greedy_request(id, letters(19) + "d", 200);
    request.stop.strings = {"gh"};
    run.add(request);
    const Sums sums = run_through(run);
    EXPECT_EQ(run.result(id).choices[0].text, "ef");
    EXPECT_EQ(sums.steps, 3U);
    EXPECT_GE(sums.draft_tokens, 3U) << id;
    EXPECT_EQ(sums.accepted, 1U);
  }
}

TEST(ModelDrafter, GuessesForAllSequencesInTheSamePasses) {
  ToyModelLog draft_log;
  Limits limits = drafting(3);
  EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
  run.add(long_request(1));
  run.add(long_request(2));
  std::size_t most_slices = 0;
  while (run.has_work()) {
    const std::size_t before = draft_log.forward_calls;
    run.step();
    if (draft_log.forward_calls == before) continue;
    EXPECT_LE(draft_log.forward_calls - before, 3U) << "a pass for each guess, not for each sequence";
    most_slices = std::max(most_slices, draft_log.slice_rows.size());
  }
  EXPECT_EQ(most_slices, 2U);
}

TEST(ModelDrafter, IsNotRunWhenManyStreamsFillTheStep) {
  ToyModelLog draft_log;
  Limits limits = drafting();
  limits.max_num_seqs = 64;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 2'000;
  EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
  for (engine::RequestId id = 0; id < 64; ++id) run.add(long_request(id, 60));
  while (run.has_work()) {
    run.step();
    if (run.output().stats.running_sequences == 64) {
      EXPECT_EQ(draft_log.forward_calls, 0U);
    }
  }
}

TEST(ModelDrafter, ALongPromptIsReadOnceInPiecesAndOnlyForALongAnswer) {
  ToyModelLog draft_log;
  Limits limits = drafting();
  EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
  Request request = greedy_request(1, letters(300), 100);
  request.stop.ignore_eos = true;
  run.add(request);
  std::size_t before = 0;
  std::uint32_t tokens = 0;
  while (run.has_work()) {
    run.step();
    EXPECT_LE(draft_log.rows - before, engine::kMaxDraftPassRows + 8);
    if (tokens > 0 && before == 0 && draft_log.rows > 0) {
      EXPECT_GE(tokens, 300U / engine::ModelDrafter::kTokensReadForOne);
    }
    before = draft_log.rows;
    tokens = static_cast<std::uint32_t>(run.result(1).choices[0].tokens.size());
  }
  EXPECT_GT(draft_log.rows, 300U);
  EXPECT_LE(draft_log.rows, 300U + 100 + 8) << "every token once";
}

// The text is "efg" and an end where it may: else the draft model guesses what is next best there,
// of which it is not sure.
TEST(ModelDrafter, AnEndTokenIsNeverGuessed) {
  for (const std::uint32_t min_tokens : {0U, 3U, 4U}) {
    EngineRun run(toy_engine_with_draft(drafting(), decided(), decided()));
    Request request = greedy_request(1, letters(19) + "d", 200);
    request.stop.token_ids = {7};
    request.stop.min_tokens = min_tokens;
    run.add(request);
    for (int i = 0; i < 3; ++i) run.step();
    EXPECT_EQ(run.output().stats.draft_tokens, min_tokens < 4 ? 1U : 2U) << min_tokens;
    EXPECT_EQ(run.output().stats.accepted_tokens, run.output().stats.draft_tokens);
    EXPECT_EQ(run.result(1).done, min_tokens < 4);
  }
}

// The draft model sees an end after every "h", where the text begins again with "a": each of its
// drafts ends there, with a pass that makes no guess. Then its passes become forty times as slow.
TEST(ModelDrafter, APriceThatRisesIsLearnedAlsoWhereEveryDraftEndsAtAnEndToken) {
  ToyModelOptions draft = decided();
  draft.habit_period = 9;
  ToyModelLog draft_log;
  Limits limits = drafting(8);
  limits.max_model_len = 1'100;
  EngineRun run(toy_engine_with_draft(limits, decided(), draft, nullptr, &draft_log));
  Request request = greedy_request(1, letters(20), 1'000);
  request.stop.token_ids = {8};
  run.add(request);
  std::uint32_t fast = 0;
  std::uint32_t slow = 0;
  while (run.has_work()) {
    const std::size_t calls = draft_log.forward_calls;
    run.step();
    const auto& stats = run.output().stats;
    const auto passes = static_cast<double>(draft_log.forward_calls - calls);
    const bool is_slow = fast >= 30;
    run.observe_step(10.0 + 0.1 * stats.rows + (is_slow ? 20.0 : 0.5) * passes);
    (is_slow ? slow : fast) += stats.drafts;
  }
  EXPECT_EQ(run.result(1).choices[0].tokens.size(), 1'000U);
  EXPECT_EQ(fast, 30U);
  EXPECT_LT(slow, 40U);
}

TEST(ModelDrafter, EachChoiceOfARequestIsGuessedFor) {
  Request request = long_request();
  request.choices = 3;
  request.sampling.temperature = 2.0F;
  EngineRun run(toy_engine_with_draft(drafting(), decided(), decided()));
  run.add(request);
  const Sums sums = run_through(run);
  EXPECT_GT(sums.accepted, 100U);
  EXPECT_EQ(sums.accepted, sums.draft_tokens);
  const RequestResult alone = run_alone(request, decided());
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(run.result(1).choices[c].tokens, alone.choices[c].tokens);
  }
}

TEST(ModelDrafter, TextBeyondItsContextIsNotGuessed) {
  ToyModelOptions draft = decided();
  draft.context_length = 60;
  EngineRun run(toy_engine_with_draft(drafting(), decided(), draft));
  run.add(long_request());
  const Sums sums = run_through(run);
  EXPECT_GT(sums.accepted, 20U);
  EXPECT_GT(sums.steps, 140U);
  EXPECT_EQ(run.result(1).choices[0].text, run_alone(long_request(), decided()).choices[0].text);
}

TEST(ModelDrafter, LimitsThatDoNotFitAreNamed) {
  const auto create = [](const Limits& limits, std::size_t draft_vocabulary) {
    ToyModelOptions draft;
    draft.vocab_size = draft_vocabulary;
    auto created = engine::Engine::create(std::make_unique<ToyModel>(), toy_tokenizer(), limits,
                                          std::make_unique<ToyModel>(draft));
    return created ? std::string() : created.error();
  };
  EXPECT_EQ(create(drafting(), 80), "");
  EXPECT_NE(create(drafting(), 63).find("the draft model 63"), std::string::npos);
  Limits limits = drafting();
  limits.speculation.draft_kv_blocks = 0;
  EXPECT_NE(create(limits, 64).find("draft model's KV cache has 0 blocks"), std::string::npos);
}

}  // namespace
}  // namespace turnstile::tests
