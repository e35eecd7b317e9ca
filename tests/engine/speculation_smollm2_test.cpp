// Speculation on the real model: the same tokens and the same bits of log-probabilities with and
// without, greedy and sampled, alone and among others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/loader/load_model.h"

namespace turnstile {
namespace {

using engine::TokenId;

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::string text;
  bool operator==(const Answer&) const = default;
};

struct Outcome {
  std::map<engine::RequestId, Answer> answers;
  std::uint64_t steps = 0;
  std::uint64_t drafted = 0;
  std::uint64_t accepted = 0;
};

// Some of the texts repeat themselves, some do not.
std::vector<std::string> prompts() {
  return {"red, green, blue, red, green, blue, red, green, blue, red, green,",
          "The fisherman went out to sea early in the morning, and",
          "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3,",
          "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul("};
}

Outcome run_all(const std::string& path, const engine::SpeculationLimits& speculation) {
  auto loaded = engine::load_model(path, {.threads = 2, .progress = {}});
  EXPECT_TRUE(loaded);
  engine::Limits limits;
  limits.max_model_len = 256;
  limits.max_num_seqs = 4;
  limits.max_num_batched_tokens = 64;
  limits.kv_cache_blocks = 80;
  limits.speculation = speculation;
  const auto tokenizer = loaded->tokenizer;
  auto created = engine::Engine::create(std::move(loaded->model), tokenizer, limits);
  EXPECT_TRUE(created) << created.error();
  engine::Engine& engine = **created;
  engine::RequestId id = 0;
  for (const float temperature : {0.0F, 0.9F}) {
    for (const std::string& prompt : prompts()) {
      engine::Request request;
      request.id = id++;
      tokenizer->encode(prompt, engine::ParseSpecial::No, request.prompt);
      request.stop.max_tokens = 40;
      request.stop.ignore_eos = true;
      request.sampling.temperature = temperature;
      request.sampling.seed = 7;
      request.sampling.top_logprobs = 0;
      if (request.id % 3 == 2) request.sampling.repetition_penalty = 1.05F;
      engine.add(std::move(request));
    }
  }
  Outcome run;
  engine::StepOutput out;
  while (engine.has_work()) {
    out.clear();
    engine.step(out);
    engine.observe_step(5.0 + 0.5 * out.stats.rows);
    engine.check_invariants();
    ++run.steps;
    run.drafted += out.stats.draft_tokens;
    run.accepted += out.stats.accepted_tokens;
    for (const engine::Event& event : out.events) {
      Answer& answer = run.answers[event.request];
      answer.text += out.text_of(event);
      if (event.kind != engine::EventKind::Token) continue;
      answer.tokens.push_back(event.token);
      answer.logprobs.push_back(event.logprob);
    }
  }
  return run;
}

TEST(SpeculationSmollm2, TokensAndTheirBitsAreTheSameWithAndWithout) {
  const char* path = std::getenv("TURNSTILE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "TURNSTILE_TEST_MODEL names no model file";
  const Outcome without = run_all(path, {});
  const Outcome with = run_all(
      path, {.num_speculative_tokens = 6, .prompt_lookup_min = 1, .prompt_lookup_max = 4});
  ASSERT_EQ(without.answers.size(), 2 * prompts().size());
  for (const auto& [id, answer] : without.answers) {
    EXPECT_EQ(with.answers.at(id), answer) << "request " << id << ": " << answer.text;
    EXPECT_EQ(answer.tokens.size(), 40U);
  }
  EXPECT_EQ(without.drafted, 0U);
  EXPECT_GT(with.accepted, 20U) << "or nothing was shown";
  EXPECT_GT(with.drafted, with.accepted) << "or no wrong guess was met";
  EXPECT_LT(with.steps, without.steps);
}

}  // namespace
}  // namespace turnstile
