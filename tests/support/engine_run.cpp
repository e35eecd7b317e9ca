#include "tests/support/engine_run.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/block_table.h"
#include "engine/tokenizer/utf8.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::EventKind;

bool is_whole_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto decoded = engine::decode_utf8(text, at);
    if (decoded.code_point == engine::kInvalidCodePoint) return false;
    at += decoded.byte_count;
  }
  return true;
}

}  // namespace

EngineRun::EngineRun(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}

void EngineRun::add(engine::Request request) {
  results_[request.id].choices.resize(request.choices);
  requests_[request.id] = request;
  engine_->add(std::move(request));
}

void EngineRun::pause(engine::RequestId id) {
  engine_->pause(id);
  has_pause_calls_ = true;
}

void EngineRun::resume(engine::RequestId id) {
  engine_->resume(id);
  has_pause_calls_ = true;
}

void EngineRun::cancel(engine::RequestId id) {
  cancelled_.push_back(id);
  engine_->cancel(id);
}

void EngineRun::step(engine::StepMail* mail) {
  out_.clear();
  const bool had_work = engine_->has_work();
  const bool had_pause_calls = std::exchange(has_pause_calls_, false);
  const std::vector<engine::RequestId> to_end = std::exchange(cancelled_, {});
  engine_->step(out_, mail);
  ++steps_;
  engine_->check_invariants();
  // What was cancelled while the step ran is over with the next one.
  is_given_up_ = !cancelled_.empty() && out_.stats.rows == 0;
  if (!had_pause_calls && !is_given_up_) {
    EXPECT_EQ(had_work, !out_.events.empty() || out_.stats.rows > 0) << "every step makes progress";
  }
  EXPECT_LE(out_.stats.rows, engine_->limits().max_num_batched_tokens);
  EXPECT_LE(out_.stats.running_sequences, engine_->limits().max_num_seqs);
  EXPECT_LE(out_.stats.free_blocks, out_.stats.total_blocks);
  if (!engine_->has_work()) {
    EXPECT_EQ(out_.stats.free_blocks, out_.stats.total_blocks) << "nothing is left held";
  }
  std::uint32_t preemptions = 0;
  for (const engine::Event& event : out_.events) {
    take(event);
    preemptions += event.kind == EventKind::Paused ? 1 : 0;
  }
  EXPECT_EQ(preemptions, out_.stats.preemptions);
  for (const engine::RequestId id : to_end) {
    if (results_.contains(id)) {
      EXPECT_TRUE(results_[id].done) << "a cancelled request is gone after the next step";
    }
  }
}

void EngineRun::take(const engine::Event& event) {
  ASSERT_TRUE(results_.contains(event.request));
  RequestResult& result = results_[event.request];
  const engine::Request& request = requests_[event.request];
  ASSERT_FALSE(result.done) << "nothing comes after the last event";
  ASSERT_LT(event.choice, result.choices.size());
  ChoiceResult& choice = result.choices[event.choice];
  ASSERT_FALSE(choice.finish) << "nothing comes after Finished";
  result.held_blocks = event.held_blocks;
  EXPECT_LE(event.held_blocks,
            request.choices *
                engine::blocks_for(request.prompt.size() + request.stop.max_tokens))
      << "no more blocks than a worst-case reservation";
  const std::string_view text = out_.text_of(event);
  EXPECT_TRUE(is_whole_utf8(text)) << "text is cut between characters";
  choice.text += text;
  if (event.kind != EventKind::Bound && event.kind != EventKind::Finished) {
    EXPECT_TRUE(result.bound) << "Bound comes first";
  }
  switch (event.kind) {
    case EventKind::Bound:
      EXPECT_FALSE(result.bound) << "a request is bound once";
      EXPECT_LT(event.tokens, request.prompt.size()) << "one prompt token is always computed";
      result.bound = true;
      result.cached_tokens = event.tokens;
      break;
    case EventKind::PromptComputed:
      EXPECT_GT(event.tokens + event.recomputed, 0U);
      result.computed_tokens += event.tokens;
      result.recomputed_tokens += event.recomputed;
      break;
    case EventKind::Token:
      EXPECT_EQ(choice.pauses, choice.resumes) << "a paused choice is silent";
      choice.tokens.push_back(event.token);
      EXPECT_LE(choice.tokens.size(), request.stop.max_tokens);
      choice.logprobs.push_back(event.logprob);
      for (const engine::TopLogprob& top : out_.top_of(event)) choice.top_logprobs.push_back(top);
      EXPECT_EQ(event.top_count, request.sampling.top_logprobs.value_or(0));
      break;
    case EventKind::Paused:
      EXPECT_EQ(choice.pauses, choice.resumes);
      ++choice.pauses;
      break;
    case EventKind::Resumed:
      ++choice.resumes;
      EXPECT_EQ(choice.pauses, choice.resumes);
      break;
    case EventKind::Finished: {
      choice.finish = event.finish;
      if (event.finish == engine::FinishReason::StopToken) {
        choice.end_token = event.token;
        choice.end_logprob = event.logprob;
        EXPECT_EQ(event.top_count, request.sampling.top_logprobs.value_or(0));
      }
      if (event.finish == engine::FinishReason::StopString) choice.stop_index = event.stop_index;
      bool all_finished = true;
      for (const ChoiceResult& other : result.choices) {
        all_finished = all_finished && other.finish.has_value();
      }
      EXPECT_EQ(event.request_done, all_finished);
      if (event.request_done) {
        EXPECT_EQ(event.held_blocks, 0U);
        result.done = true;
      }
      break;
    }
  }
}

void EngineRun::run() {
  constexpr std::uint64_t kTooMany = 100'000;
  for (std::uint64_t i = 0; engine_->has_work(); ++i) {
    ASSERT_LT(i, kTooMany) << "the engine does not come to an end";
    step();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

std::unique_ptr<engine::Engine> toy_engine(const engine::Limits& limits,
                                           const ToyModelOptions& options, ToyModelLog* log) {
  auto created =
      engine::Engine::create(std::make_unique<ToyModel>(options, log), toy_tokenizer(), limits);
  EXPECT_TRUE(created) << created.error();
  return *std::move(created);
}

std::unique_ptr<engine::Engine> toy_engine_with_draft(const engine::Limits& limits,
                                                      const ToyModelOptions& options,
                                                      const ToyModelOptions& draft_options,
                                                      ToyModelLog* log, ToyModelLog* draft_log) {
  auto created =
      engine::Engine::create(std::make_unique<ToyModel>(options, log), toy_tokenizer(), limits,
                             std::make_unique<ToyModel>(draft_options, draft_log));
  EXPECT_TRUE(created) << created.error();
  return std::move(*created);
}

RequestResult run_alone(const engine::Request& request, const ToyModelOptions& options) {
  engine::Limits limits;
  limits.max_model_len =
      static_cast<std::uint32_t>(request.prompt.size()) + request.stop.max_tokens;
  limits.max_num_seqs = request.choices;
  limits.max_num_batched_tokens = limits.max_model_len + limits.max_num_seqs;
  limits.kv_cache_blocks = request.choices * engine::blocks_for(limits.max_model_len);
  limits.enable_prefix_caching = false;
  EngineRun run(toy_engine(limits, options));
  run.add(request);
  run.run();
  return run.result(request.id);
}

}  // namespace turnstile::tests
