// Draft models on real files: the small checkpoints draft for themselves and for each other.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/loader/load_model.h"
#include "engine/loader/same_vocabulary.h"
#include "tests/support/golden_files.h"

namespace turnstile {
namespace {

using engine::TokenId;

struct ChoiceText {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  bool operator==(const ChoiceText&) const = default;
};

struct ChoiceRun {
  std::map<std::pair<engine::RequestId, int>, ChoiceText> answers;
  std::uint64_t steps = 0;
  std::uint64_t drafted = 0;
  std::uint64_t accepted = 0;
};

// `draft`: a folder of golden models, or empty.
ChoiceRun run_all(const std::string& model, const std::string& draft, float temperature) {
  auto loaded = engine::load_model(tests::golden_path(model + "/model.gguf"), {.threads = 2});
  EXPECT_TRUE(loaded);
  engine::Limits limits;
  limits.max_model_len = 160;
  limits.max_num_seqs = 5;
  limits.max_num_batched_tokens = 48;
  limits.kv_cache_blocks = 60;
  std::unique_ptr<engine::Model> draft_model;
  if (!draft.empty()) {
    limits.speculation.method = engine::SpeculationMethod::DraftModel;
    limits.speculation.num_speculative_tokens = 4;
    limits.speculation.draft_kv_blocks = 40;
    auto loaded_draft = engine::load_model(tests::golden_path(draft + "/model.gguf"),
                                           {.workers = loaded->model->workers()});
    EXPECT_TRUE(loaded_draft);
    EXPECT_FALSE(
        engine::find_vocabulary_difference(*loaded->tokenizer, *loaded_draft->tokenizer));
    draft_model = std::move(loaded_draft->model);
  }
  auto created = engine::Engine::create(std::move(loaded->model), loaded->tokenizer, limits,
                                        std::move(draft_model));
  EXPECT_TRUE(created) << created.error();
  engine::Engine& engine = **created;
  for (engine::RequestId id = 1; id <= 4; ++id) {
    engine::Request request;
    request.id = id;
    for (TokenId i = 0; i < 10 + 7 * id; ++i) {
      request.prompt.push_back(static_cast<TokenId>(10 + (i * (3 + id) + id) % 250));
    }
    request.choices = id == 4 ? 2 : 1;
    request.stop.max_tokens = 60;
    request.stop.ignore_eos = true;
    request.sampling.temperature = temperature;
    request.sampling.seed = id;
    request.sampling.top_logprobs = 0;
    engine.add(std::move(request));
  }
  ChoiceRun run;
  engine::StepOutput out;
  while (engine.has_work()) {
    out.clear();
    if (run.steps == 20) engine.pause(2);
    if (run.steps == 26) engine.resume(2);
    engine.step(out);
    // As if the draft model were cheap: the steps of a file so small tell nothing.
    engine.observe_step(5.0 + 0.2 * out.stats.rows);
    engine.check_invariants();
    ++run.steps;
    run.drafted += out.stats.draft_tokens;
    run.accepted += out.stats.accepted_tokens;
    for (const engine::Event& event : out.events) {
      if (event.kind != engine::EventKind::Token) continue;
      ChoiceText& answer = run.answers[{event.request, event.choice}];
      answer.tokens.push_back(event.token);
      answer.logprobs.push_back(event.logprob);
    }
  }
  return run;
}

TEST(SpeculationTiny, AModelAcceptsEveryGuessOfItsOwn) {
  for (const float temperature : {0.0F, 0.7F}) {
    const ChoiceRun without = run_all("tiny/llama", "", temperature);
    const ChoiceRun with = run_all("tiny/llama", "tiny/llama", temperature);
    EXPECT_EQ(with.answers, without.answers) << "the same tokens and the same bits";
    EXPECT_EQ(with.answers.size(), 5U);
    EXPECT_GT(with.accepted, 50U) << "or nothing was shown";
    EXPECT_EQ(with.accepted, with.drafted) << temperature;
    EXPECT_LT(with.steps, without.steps);
  }
}

TEST(SpeculationTiny, AnotherModelChangesNoText) {
  for (const float temperature : {0.0F, 0.7F}) {
    const ChoiceRun without = run_all("tiny/llama", "", temperature);
    const ChoiceRun with = run_all("tiny/llama", "tiny/llama_tied_rope_scaled", temperature);
    EXPECT_EQ(with.answers, without.answers) << "the same tokens and the same bits";
    EXPECT_GT(with.drafted, with.accepted) << "wrong guesses were met";
  }
}

}  // namespace
}  // namespace turnstile
