// Random requests, limits, cancels, pauses, drafts and durations, between the steps and in the
// middle of them: every text is the text of the solo run, and every promise of engine.h holds after
// every step (tests/support/engine_run.h checks them).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/block_table.h"
#include "tests/support/engine_run.h"
#include "tests/support/repeats.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using engine::FinishReason;
using engine::Limits;
using engine::Request;
using engine::TokenId;

class Scenario : private engine::StepMail {
 public:
  explicit Scenario(std::uint32_t seed) : random_(seed), limits_(random_limits()) {
    options_.weights = seed;
    if (pick(2) == 0) options_.habit = 1.0F + static_cast<float>(pick(6));
    for (auto& prefix : prefixes_) {
      prefix.resize(1 + pick(60));
      for (TokenId& token : prefix) token = pick(kToyVocabulary);
    }
  }

  void run() {
    EngineRun run(limits_.speculation.method == engine::SpeculationMethod::DraftModel
                      ? toy_engine_with_draft(limits_, options_, draft_options())
                      : toy_engine(limits_, options_));
    run_ = &run;
    request_count_ = 1 + pick(18);
    while (requests_.size() < request_count_ || run.has_work() || !resume_at_.empty()) {
      send_mail();
      run.step(this);
      given_up_ += run.is_given_up() ? 1 : 0;
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_LT(run.steps(), 20'000U) << "the engine does not come to an end";
      // Any durations: they decide what is planned, never what is said.
      if (pick(2) == 0) run.observe_step(0.01 * pick(10'000));
      accepted_ += run.output().stats.accepted_tokens;
      rejected_ += run.output().stats.draft_tokens - run.output().stats.accepted_tokens;
      for (const auto& event : run.output().events) {
        pauses_ += event.kind == engine::EventKind::Paused ? 1 : 0;
        hits_ += event.kind == engine::EventKind::Bound ? event.tokens : 0;
      }
    }
    for (const Request& request : requests_) compare(request, run.result(request.id));
  }

  std::uint32_t pauses() const { return pauses_; }
  std::uint32_t outside_pauses() const { return outside_pauses_; }
  std::uint32_t hits() const { return hits_; }
  std::uint32_t accepted() const { return accepted_; }
  std::uint32_t rejected() const { return rejected_; }
  std::uint32_t given_up() const { return given_up_; }

 private:
  static constexpr std::uint32_t kMostOutsidePauses = 1'000;

  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  void read() override {
    if (pick(3) == 0) send_mail();
    // Now and then everybody leaves.
    if (pick(400) == 0) {
      for (const Request& request : requests_) run_->cancel(request.id);
    }
  }

  void send_mail() {
    for (auto it = resume_at_.begin(); it != resume_at_.end();) {
      const bool is_time = it->second <= run_->steps() || !run_->has_work();
      if (is_time) run_->resume(it->first);
      it = is_time ? resume_at_.erase(it) : std::next(it);
    }
    // A request that is paused more often than it can be computed would never end.
    if (!requests_.empty() && outside_pauses_ < kMostOutsidePauses && pick(6) == 0) {
      const engine::RequestId id = requests_[pick(static_cast<std::uint32_t>(requests_.size()))].id;
      if (!resume_at_.contains(id)) {
        run_->pause(id);
        resume_at_[id] = run_->steps() + pick(12);
        ++outside_pauses_;
      }
    }
    while (requests_.size() < request_count_ && (pick(3) == 0 || !run_->has_work())) {
      requests_.push_back(random_request(requests_.size()));
      run_->add(requests_.back());
      if (pick(5) == 0) cancel_at_[requests_.back().id] = run_->steps() + pick(20);
    }
    for (const auto& [id, step] : cancel_at_) {
      if (step == run_->steps()) run_->cancel(id);
    }
  }

  // Half of the draft models are as good as the model, the others know nothing but its habit.
  ToyModelOptions draft_options() {
    ToyModelOptions options = options_;
    if (pick(2) == 0) options.weights += 1;
    return options;
  }

  Limits random_limits() {
    Limits limits;
    limits.max_model_len = 150;
    limits.max_num_seqs = 1 + pick(6);
    limits.max_num_batched_tokens = limits.max_num_seqs + pick(40);
    limits.enable_prefix_caching = pick(3) > 0;
    limits.enable_chunked_prefill = pick(4) > 0;
    if (!limits.enable_chunked_prefill) limits.max_num_batched_tokens = 150 + pick(30);
    limits.kv_cache_blocks = engine::blocks_for(limits.max_model_len) + pick(25);
    if (pick(3) > 0) {
      limits.speculation.num_speculative_tokens = 1 + pick(6);
      limits.speculation.prompt_lookup_min = 1 + pick(2);
      limits.speculation.prompt_lookup_max = limits.speculation.prompt_lookup_min + pick(4);
      if (pick(2) == 0) {
        limits.speculation.method = engine::SpeculationMethod::DraftModel;
        limits.speculation.draft_kv_blocks = 1 + pick(25);
      }
    }
    return limits;
  }

  Request random_request(engine::RequestId id) {
    Request request;
    request.id = id;
    request.prompt = prefixes_[pick(4)];
    const std::uint32_t extra = pick(3) == 0 ? 0 : pick(20);
    for (std::uint32_t i = 0; i < extra; ++i) request.prompt.push_back(pick(kToyVocabulary));
    request.choices = pick(4) == 0 ? 1 + pick(4) : 1;
    request.priority = static_cast<std::int32_t>(pick(3)) - 1;
    request.deadline = pick(4) == 0 ? pick(100) : 0;
    if (pick(2) == 0) request.token_gap_ms = 0.1F * static_cast<float>(1 + pick(500));
    request.salt = {pick(2), 7};
    request.stop.max_tokens = 1 + pick(60);
    request.stop.min_tokens = pick(4) == 0 ? pick(10) : 0;
    request.stop.ignore_eos = pick(2) == 0;
    request.stop.include_stop_string = pick(4) == 0;
    request.skip_special_tokens = pick(2) == 0;
    if (pick(3) == 0) request.stop.strings = {"ab", std::string(1, static_cast<char>('a' + pick(26)))};
    if (pick(5) == 0) request.stop.token_ids = {pick(kToyVocabulary)};
    request.sampling.temperature = pick(3) == 0 ? 0.0F : 0.3F + 0.2F * static_cast<float>(pick(8));
    request.sampling.seed = pick(1000);
    if (pick(3) == 0) request.sampling.top_k = 1 + pick(40);
    if (pick(3) == 0) request.sampling.top_p = 0.1F + 0.1F * static_cast<float>(pick(9));
    if (pick(4) == 0) request.sampling.min_p = 0.05F;
    if (pick(3) == 0) request.sampling.repetition_penalty = 1.2F;
    if (pick(4) == 0) request.sampling.frequency_penalty = 0.4F;
    if (pick(4) == 0) request.sampling.presence_penalty = -0.3F;
    if (pick(3) == 0) request.sampling.top_logprobs = pick(5);
    return request;
  }

  void compare(const Request& request, const RequestResult& result) {
    const RequestResult alone = run_alone(request, options_);
    for (std::uint32_t c = 0; c < request.choices; ++c) {
      SCOPED_TRACE("request " + std::to_string(request.id) + " choice " + std::to_string(c));
      const ChoiceResult& choice = result.choices[c];
      const ChoiceResult& expected = alone.choices[c];
      ASSERT_TRUE(choice.finish);
      if (choice.finish != FinishReason::Cancelled) {
        EXPECT_EQ(choice.finish, expected.finish);
        EXPECT_EQ(choice.text, expected.text);
        EXPECT_EQ(choice.tokens, expected.tokens);
        EXPECT_EQ(choice.logprobs, expected.logprobs) << "the same bits";
        EXPECT_EQ(choice.end_token, expected.end_token);
        EXPECT_EQ(choice.stop_index, expected.stop_index);
        EXPECT_LE(result.computed_tokens + result.cached_tokens, request.prompt.size());
      } else {
        ASSERT_LE(choice.tokens.size(), expected.tokens.size());
        EXPECT_TRUE(std::equal(choice.tokens.begin(), choice.tokens.end(),
                               expected.tokens.begin()));
      }
    }
  }

  std::mt19937 random_;
  Limits limits_;
  ToyModelOptions options_;
  std::vector<TokenId> prefixes_[4];
  EngineRun* run_ = nullptr;
  std::uint32_t request_count_ = 0;
  std::vector<Request> requests_;
  std::map<engine::RequestId, std::uint64_t> cancel_at_;
  std::map<engine::RequestId, std::uint64_t> resume_at_;  // paused from outside
  std::uint32_t pauses_ = 0;
  std::uint32_t outside_pauses_ = 0;
  std::uint32_t hits_ = 0;
  std::uint32_t accepted_ = 0;
  std::uint32_t rejected_ = 0;
  std::uint32_t given_up_ = 0;
};

TEST(EngineProperty, EveryTextIsTheTextOfTheSoloRun) {
  std::uint32_t pauses = 0;
  std::uint32_t hits = 0;
  std::uint32_t accepted = 0;
  std::uint32_t rejected = 0;
  std::uint32_t given_up = 0;
  for (std::uint32_t seed = 1; seed <= repeats(1500); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scenario scenario(seed);
    scenario.run();
    pauses += scenario.pauses();
    hits += scenario.hits();
    accepted += scenario.accepted();
    rejected += scenario.rejected();
    given_up += scenario.given_up();
    if (HasFailure()) return;
  }
  // Otherwise the scenarios have become too tame to prove anything.
  EXPECT_GT(pauses, repeats(1000));
  EXPECT_GT(hits, repeats(10'000));
  EXPECT_GT(accepted, repeats(2'000));
  EXPECT_GT(rejected, repeats(5'000));
  EXPECT_GT(given_up, repeats(300));
}

// The same calls give the same events, byte for byte.
TEST(EngineProperty, TheEngineIsAFunctionOfItsCalls) {
  const auto record = [] {
    Limits limits;
    limits.max_model_len = 100;
    limits.max_num_seqs = 3;
    limits.max_num_batched_tokens = 20;
    limits.kv_cache_blocks = 9;
    EngineRun run(toy_engine(limits));
    std::string log;
    for (engine::RequestId id = 0; id < 6; ++id) {
      Request request;
      request.id = id;
      request.prompt = toy_tokens("the same beginning of all");
      request.prompt.push_back(static_cast<TokenId>(id));
      request.stop.max_tokens = 50;
      request.sampling.seed = id;
      run.add(request);
    }
    while (run.has_work()) {
      run.step();
      for (const auto& event : run.output().events) {
        log += std::to_string(static_cast<int>(event.kind)) + ":" + std::to_string(event.request) +
               ":" + std::to_string(event.token) + ":" + std::to_string(event.held_blocks) + " ";
      }
      log += run.output().text + "\n";
    }
    return log;
  };
  EXPECT_EQ(record(), record());
}

}  // namespace
}  // namespace turnstile::tests
