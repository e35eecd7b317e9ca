// request.h: what the engine is asked to generate. A value; the engine takes it over.
//
// Everything is validated before it reaches the engine (gateway/chat_request); Engine::add asserts
// what it relies on: prompt not empty, ids < vocabulary, prompt + max_tokens <= max_model_len,
// 1 <= choices <= kMaxChoices, finite numbers in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/token_id.h"

namespace turnstile::engine {

using RequestId = std::uint64_t;  // given by the caller, never used twice

// 128 bits mixed into the prefix cache's hash chain: sequences share blocks only under one salt.
// The gateway derives it from the team and the client's `cache_salt`.
struct CacheSalt {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const CacheSalt&) const = default;
};

struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy, and top_k, top_p, min_p have no effect
  std::uint32_t top_k = 0;   // 0: off
  float top_p = 1.0F;        // (0, 1]
  float min_p = 0.0F;        // [0, 1]
  float repetition_penalty = 1.0F;  // > 0; over prompt and completion tokens
  float presence_penalty = 0.0F;    // over completion tokens
  float frequency_penalty = 0.0F;
  std::vector<std::pair<TokenId, float>> logit_bias;
  // Random numbers are a function of (seed, choice, position) alone, so the text does not depend
  // on what else is in the batch.
  std::uint64_t seed = 0;
  // Set: log-probabilities of the chosen token and of this many best ones are reported, raw
  // (before penalties, bias and temperature).
  std::optional<std::uint32_t> top_logprobs;
};

struct StopConditions {
  std::uint32_t max_tokens = 16;  // >= 1, each choice
  std::uint32_t min_tokens = 0;   // end tokens and stop strings have no effect before
  bool ignore_eos = false;
  std::vector<std::string> strings;
  bool include_stop_string = false;
  std::vector<TokenId> token_ids;  // beside the tokenizer's end-of-generation tokens
};

struct Request {
  RequestId id = 0;
  std::vector<TokenId> prompt;
  std::uint32_t choices = 1;
  SamplingParams sampling;
  StopConditions stop;
  bool skip_special_tokens = true;  // control tokens give no text
  CacheSalt salt;
  std::int32_t priority = 0;  // smaller is served first and paused last
  // Within a priority the smaller one is served first, then the earlier arrival: an instant by
  // which the first token is wanted, on one scale of the caller's for all requests.
  std::uint64_t deadline = 0;
  // Steps that decode this request are kept as short as that, by cutting prompts and by letting
  // worse priorities rest; it may itself rest so long (scheduler.h). 0: no matter.
  float token_gap_ms = 0.0F;
};

}  // namespace turnstile::engine
