// sampler.h: from a row of logits to the next token.
//
// In this order (vLLM's):
//
//   raw logits --> log-probabilities to report
//       |
//       +--> end tokens masked (min_tokens), logit_bias
//       +--> repetition penalty (prompt and completion: x / r if x > 0, else x * r),
//       |    frequency penalty (x - f * count), presence penalty (x - p if count > 0)
//       +--> temperature 0: the best token, the lowest id among equals
//       +--> temperature --> min_p --> top_k --> top_p --> one draw, inverse CDF in order of ids
//
// min_p keeps tokens with at least min_p times the best probability. top_k keeps exactly k, lower
// ids first among equals. top_p keeps the fewest best tokens whose share of what is left reaches p.
// The draw comes from rng.h, so it depends on nothing but the row and (seed, choice, position).
//
// Thread:  engine thread; owns scratch space of one row.
// Errors:  a NaN or an infinity in the row, or a mask over all tokens: nullopt; the caller ends the
//          sequence as Fault.
// Cost:    a few passes over the row, never a full sort, and some ten vector passes more when the
//          nucleus is half of the vocabulary (bench/engine_bench.cpp); no allocation once the
//          candidates have grown.
// Tests:   tests/engine/sampler_test.cpp (hand values, chi-square).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/logits_row.h"
#include "engine/request.h"
#include "engine/step_output.h"
#include "engine/token_counts.h"

namespace turnstile::engine {

struct SampleInput {
  const SamplingParams& params;
  const TokenCounts& counts;
  std::span<const TokenId> masked;  // never chosen in this step
  std::uint32_t choice = 0;
  std::uint32_t position = 0;       // of the new token in its sequence
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0F;  // raw; 0 unless top_logprobs was asked for
};

class Sampler {
 public:
  explicit Sampler(std::size_t vocab_size);

  // Appends params.top_logprobs alternatives to `top`, best first.
  std::optional<SampledToken> sample(std::span<const float> logits, const SampleInput& input,
                                     std::vector<TopLogprob>& top);

 private:
  bool adjust(std::span<const float> logits, const SampleInput& input);
  TokenId draw(const SampleInput& input);
  void append_top(double log_sum, std::uint32_t count, std::vector<TopLogprob>& top);

  // Candidates are in the order of ids, and always all tokens at least as good as some last one.
  float gather_likely_nucleus();
  TokenId draw_from_wide_nucleus(const SamplingParams& params, float inside, double wanted,
                                 double uniform);
  double sum_candidates() const;
  void keep_top_k(std::size_t k);
  void keep_top_p(double wanted, float inverse_temperature);
  void keep_through(Candidate last);
  Candidate find_last_of_nucleus(double sum_before, double wanted);

  LogitsRow row_;
  std::vector<float> adjusted_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> selection_;  // scratch whose order may change
  std::vector<double> bucket_sums_;
};

}  // namespace turnstile::engine
