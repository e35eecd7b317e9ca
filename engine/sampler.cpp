#include "engine/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/rng.h"

namespace turnstile::engine {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Penalties and biases in range may still overflow a float; differences of two bounded logits
// divided by the least temperature do not.
constexpr float kGreatestLogit = 1e30F;

// Colder than this, the best token's rivals have no weight in float: it is greedy.
constexpr float kLeastTemperature = 1e-5F;

// Most nuclei of real text are smaller; others take the slower way.
constexpr std::size_t kNucleusGuess = 256;

float bounded(float logit) { return std::clamp(logit, -kGreatestLogit, kGreatestLogit); }

}  // namespace

Sampler::Sampler(std::size_t vocab_size) : row_(vocab_size), adjusted_(vocab_size) {}

std::optional<SampledToken> Sampler::sample(std::span<const float> logits,
                                            const SampleInput& input,
                                            std::vector<TopLogprob>& top) {
  row_.scan(logits);
  if (!row_.all_finite()) return std::nullopt;
  const bool wants_logprobs = input.params.top_logprobs.has_value();
  double log_sum = 0.0;
  if (wants_logprobs) {
    log_sum = static_cast<double>(row_.best_logit()) + std::log(row_.sum_weights(1.0F));
    append_top(log_sum, *input.params.top_logprobs, top);
  }
  if (adjust(logits, input)) row_.scan(adjusted_);
  if (row_.best_logit() == kMinusInfinity) return std::nullopt;

  SampledToken sampled;
  sampled.token = input.params.temperature < kLeastTemperature ? row_.best_token() : draw(input);
  if (wants_logprobs) {
    sampled.logprob = static_cast<float>(static_cast<double>(logits[sampled.token]) - log_sum);
  }
  return sampled;
}

bool Sampler::adjust(std::span<const float> logits, const SampleInput& input) {
  const SamplingParams& params = input.params;
  if (input.masked.empty() && params.logit_bias.empty() && !input.counts.active()) return false;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [token, bias] : params.logit_bias) {
    adjusted_[token] = bounded(adjusted_[token] + bias);
  }
  const std::span<const TokenId> tokens = input.counts.tokens();
  const std::span<const std::uint32_t> generated = input.counts.generated();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    float& logit = adjusted_[tokens[i]];
    logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (generated[i] > 0) {
      logit -= params.frequency_penalty * static_cast<float>(generated[i]);
      logit -= params.presence_penalty;
    }
    logit = bounded(logit);
  }
  for (const TokenId token : input.masked) adjusted_[token] = kMinusInfinity;
  return true;
}

void Sampler::append_top(double log_sum, std::uint32_t count, std::vector<TopLogprob>& top) {
  if (count == 0) return;
  const std::size_t kept = std::min<std::size_t>(count, row_.size());
  row_.gather(row_.top_bound(kept), candidates_);
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(candidates_.begin(), end, candidates_.end(), is_better);
  for (auto candidate = candidates_.begin(); candidate != end; ++candidate) {
    const double logprob = static_cast<double>(candidate->logit) - log_sum;
    top.push_back({.token = candidate->token, .logprob = static_cast<float>(logprob)});
  }
}

float Sampler::candidate_weight(const Candidate& candidate, float inverse_temperature) const {
  return weight_of((candidate.logit - row_.best_logit()) * inverse_temperature);
}

TokenId Sampler::draw(const SampleInput& input) {
  const SamplingParams& params = input.params;
  const float inverse_temperature = 1.0F / params.temperature;
  const double uniform = uniform_draw(params.seed, input.choice, input.position);
  const auto sum_candidates = [&] {
    double sum = 0.0;
    for (const Candidate& candidate : candidates_) {
      sum += static_cast<double>(candidate_weight(candidate, inverse_temperature));
    }
    return sum;
  };

  const bool has_min_p = params.min_p > 0.0F;
  const bool has_top_k = params.top_k > 0 && params.top_k < row_.size();
  const bool has_top_p = params.top_p < 1.0F;
  const float least =
      has_min_p ? row_.best_logit() + params.temperature * std::log(params.min_p) : kMinusInfinity;
  if (has_top_k) {
    keep_top_k(params.top_k, least);
  } else if (has_min_p) {
    row_.gather(least, candidates_);
  } else {
    const double sum = row_.sum_weights(inverse_temperature);
    if (!has_top_p) return row_.token_at(uniform * sum);
    const double wanted = static_cast<double>(params.top_p) * sum;
    row_.gather(row_.top_bound(kNucleusGuess), candidates_);
    if (sum_candidates() < wanted) {
      // Tokens below have together at most the share 1 - top_p, even if all of them were there.
      const float depth = std::log((1.0F - params.top_p) / static_cast<float>(row_.size()));
      row_.gather(row_.best_logit() + params.temperature * depth, candidates_);
    }
    keep_top_p(wanted, inverse_temperature);
  }
  if (has_top_p && (has_top_k || has_min_p)) {
    keep_top_p(static_cast<double>(params.top_p) * sum_candidates(), inverse_temperature);
  }

  const double target = uniform * sum_candidates();
  double sum = 0.0;
  TokenId chosen = row_.best_token();
  for (const Candidate& candidate : candidates_) {
    const float weight = candidate_weight(candidate, inverse_temperature);
    if (weight == 0.0F) continue;
    chosen = candidate.token;
    sum += static_cast<double>(weight);
    if (sum > target) break;
  }
  return chosen;
}

void Sampler::keep_top_k(std::size_t k, float least) {
  row_.gather(std::max(row_.top_bound(k), least), candidates_);
  if (candidates_.size() <= k) return;
  const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(candidates_.begin(), kth, candidates_.end(), is_better);
  keep_through(*kth);
}

// Halves the candidates around their median until the one where the running sum of the best ones
// reaches `wanted` is found: linear in their number, whatever their values.
void Sampler::keep_top_p(double wanted, float inverse_temperature) {
  assert(!candidates_.empty() && "the best token is always a candidate");
  constexpr std::ptrdiff_t kFewEnoughToSort = 32;
  const auto begin = candidates_.begin();
  std::ptrdiff_t low = 0;
  auto high = static_cast<std::ptrdiff_t>(candidates_.size());
  double sum = 0.0;
  while (high - low > kFewEnoughToSort) {
    const std::ptrdiff_t middle = low + (high - low) / 2;
    std::nth_element(begin + low, begin + middle, begin + high, is_better);
    double half = 0.0;
    for (auto candidate = begin + low; candidate != begin + middle; ++candidate) {
      half += static_cast<double>(candidate_weight(*candidate, inverse_temperature));
    }
    if (sum + half >= wanted) {
      high = middle;
    } else {
      sum += half;
      low = middle;
    }
  }
  std::sort(begin + low, begin + high, is_better);
  std::ptrdiff_t last = low;
  for (; last + 1 < high; ++last) {
    sum += static_cast<double>(candidate_weight(begin[last], inverse_temperature));
    if (sum >= wanted) break;
  }
  keep_through(begin[last]);
}

void Sampler::keep_through(Candidate last) {
  row_.gather(last.logit, candidates_);
  std::erase_if(candidates_, [&](const Candidate& c) { return is_better(last, c); });
}

}  // namespace turnstile::engine
