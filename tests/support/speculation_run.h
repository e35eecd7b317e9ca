// speculation_run.h: a request long enough to be guessed for, by whom, and what came of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"

namespace turnstile::tests {

inline engine::Request long_request(engine::RequestId id = 1, std::uint32_t max_tokens = 200) {
  engine::Request request = greedy_request(id, letters(20), max_tokens);
  request.stop.ignore_eos = true;
  return request;
}

// A draft model guesses.
inline engine::Limits drafting(std::uint32_t guesses = 4) {
  engine::Limits limits = roomy_limits();
  limits.speculation.num_speculative_tokens = guesses;
  limits.speculation.method = engine::SpeculationMethod::DraftModel;
  limits.speculation.draft_kv_blocks = 300;
  return limits;
}

// Logits far apart, so that a draft model is sure of its guesses.
inline ToyModelOptions decided(std::uint64_t weights = 1) {
  ToyModelOptions options;
  options.weights = weights;
  options.habit = 12.0F;
  return options;
}

struct Sums {
  std::uint64_t steps = 0;
  std::uint32_t drafts = 0;
  std::uint32_t draft_tokens = 0;
  std::uint32_t accepted = 0;
};

// Steps until nothing is left to do.
inline Sums run_through(EngineRun& run) {
  Sums sums;
  while (run.has_work() && !::testing::Test::HasFatalFailure()) {
    run.step();
    ++sums.steps;
    sums.drafts += run.output().stats.drafts;
    sums.draft_tokens += run.output().stats.draft_tokens;
    sums.accepted += run.output().stats.accepted_tokens;
  }
  return sums;
}

}  // namespace turnstile::tests
