#include "engine/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/rng.h"

namespace turnstile::engine {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Penalties and biases in range may still overflow a float; differences of two bounded logits
// divided by the least temperature do not.
constexpr float kGreatestLogit = 1e30F;

// Colder than this, the best token's rivals have no weight in float: it is greedy.
constexpr float kLeastTemperature = 1e-5F;

// Most nuclei of real text are smaller; others take the slower way. That ends when so few
// candidates are left for the last place of the nucleus.
constexpr std::size_t kNucleusGuess = 256;

// A nucleus among more candidates than this is first narrowed down to one of so many buckets.
constexpr std::size_t kBuckets = 1024;

float bounded(float logit) { return std::clamp(logit, -kGreatestLogit, kGreatestLogit); }

}  // namespace

Sampler::Sampler(std::size_t vocab_size)
    : row_(vocab_size), adjusted_(vocab_size), bucket_sums_(kBuckets) {}

std::optional<SampledToken> Sampler::sample(std::span<const float> logits,
                                            const SampleInput& input,
                                            std::vector<TopLogprob>& top) {
  row_.scan(logits);
  if (!row_.all_finite()) return std::nullopt;
  const bool wants_logprobs = input.params.top_logprobs.has_value();
  double log_sum = 0.0;
  if (wants_logprobs) {
    log_sum = static_cast<double>(row_.best_logit()) + std::log(row_.weigh(1.0F));
    append_top(log_sum, *input.params.top_logprobs, top);
  }
  if (adjust(logits, input)) row_.scan(adjusted_);
  if (row_.best_logit() == kMasked) return std::nullopt;

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
  for (const TokenId token : input.masked) adjusted_[token] = kMasked;
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

TokenId Sampler::draw(const SampleInput& input) {
  const SamplingParams& params = input.params;
  const float inverse_temperature = 1.0F / params.temperature;
  const double uniform = uniform_draw(params.seed, input.choice, input.position);
  const bool has_min_p = params.min_p > 0.0F;
  const bool has_top_k = params.top_k > 0 && params.top_k < row_.size();
  const bool has_top_p = params.top_p < 1.0F;
  if (has_min_p || has_top_k) {
    const float min_p_bound =
        has_min_p ? row_.best_logit() + params.temperature * std::log(params.min_p)
                  : kMasked;
    const float top_k_bound = has_top_k ? row_.top_bound(params.top_k) : kMasked;
    row_.gather(std::max(min_p_bound, top_k_bound), candidates_);
    if (has_top_k) keep_top_k(params.top_k);
    for (Candidate& c : candidates_) {
      c.weight = weight_of((c.logit - row_.best_logit()) * inverse_temperature);
    }
    if (has_top_p) {
      keep_top_p(static_cast<double>(params.top_p) * sum_candidates(), inverse_temperature);
    }
  } else {
    const double row_sum = row_.weigh(inverse_temperature);
    if (!has_top_p) return row_.token_at(uniform * row_sum);
    const double wanted = static_cast<double>(params.top_p) * row_sum;
    const float guess = gather_likely_nucleus();
    if (guess > kMasked && sum_candidates() < wanted) {
      return draw_from_wide_nucleus(params, guess, wanted, uniform);
    }
    keep_top_p(wanted, inverse_temperature);
  }

  const double target = uniform * sum_candidates();
  double sum = 0.0;
  TokenId chosen = row_.best_token();
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight == 0.0F) continue;
    chosen = candidate.token;
    sum += static_cast<double>(candidate.weight);
    if (sum > target) break;
  }
  return chosen;
}

// Returns the logit above which the candidates are.
float Sampler::gather_likely_nucleus() {
  const float bound = row_.top_bound(kNucleusGuess);
  row_.gather(bound, candidates_);
  for (Candidate& candidate : candidates_) candidate.weight = row_.weight(candidate.token);
  return bound;
}

// A nucleus of thousands of tokens has its last place between two logits: values >= `inside` do not
// reach `wanted`, values >= `outside` do. Their distance is halved until few tokens lie between;
// the nucleus is then what is left of the row when all worse tokens have lost their weight.
TokenId Sampler::draw_from_wide_nucleus(const SamplingParams& params, float inside, double wanted,
                                        double uniform) {
  LogitsRow::Reach within = row_.reach(inside);
  // Tokens below this depth hold together at most the share 1 - top_p, even if all were there.
  const float depth = std::log((1.0F - params.top_p) / static_cast<float>(row_.size()));
  float outside = std::clamp(row_.best_logit() + params.temperature * depth,
                             std::numeric_limits<float>::lowest(), inside);
  LogitsRow::Reach beyond = row_.reach(outside);
  while (beyond.count > within.count + kNucleusGuess) {
    const float middle = outside + (inside - outside) / 2.0F;
    if (middle <= outside || middle >= inside) break;
    const LogitsRow::Reach reach = row_.reach(middle);
    if (reach.weight < wanted) {
      inside = middle;
      within = reach;
    } else {
      outside = middle;
      beyond = reach;
    }
  }
  row_.gather_between(outside, inside, selection_);
  // Only rounding can leave nobody between the two.
  Candidate last{.logit = outside, .weight = 0.0F, .token = static_cast<TokenId>(row_.size() - 1)};
  if (!selection_.empty()) last = find_last_of_nucleus(within.weight, wanted);
  return row_.token_at(uniform * row_.keep_through(last));
}

double Sampler::sum_candidates() const {
  double sum = 0.0;
  for (const Candidate& candidate : candidates_) sum += static_cast<double>(candidate.weight);
  return sum;
}

void Sampler::keep_through(Candidate last) {
  std::erase_if(candidates_, [&](const Candidate& c) { return is_better(last, c); });
}

void Sampler::keep_top_k(std::size_t k) {
  if (candidates_.size() <= k) return;
  selection_ = candidates_;
  const auto kth = selection_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(selection_.begin(), kth, selection_.end(), is_better);
  keep_through(*kth);
}

// Of many candidates, equal slices of the range of logits are summed first; only the candidates of
// the slice in which the running sum reaches `wanted` are then put in order.
void Sampler::keep_top_p(double wanted, float inverse_temperature) {
  assert(!candidates_.empty() && "the best token is always a candidate");
  if (candidates_.size() <= kBuckets) {
    selection_ = candidates_;
    keep_through(find_last_of_nucleus(0.0, wanted));
    return;
  }
  const auto depth = [&](const Candidate& c) {
    return (row_.best_logit() - c.logit) * inverse_temperature;
  };
  float deepest = 0.0F;
  for (const Candidate& candidate : candidates_) deepest = std::max(deepest, depth(candidate));
  const float scale = deepest > 0.0F ? static_cast<float>(kBuckets - 1) / deepest : 0.0F;
  const auto bucket = [&](const Candidate& c) {
    return static_cast<std::size_t>(std::min(depth(c) * scale, static_cast<float>(kBuckets - 1)));
  };
  std::fill(bucket_sums_.begin(), bucket_sums_.end(), 0.0);
  for (const Candidate& candidate : candidates_) {
    bucket_sums_[bucket(candidate)] += static_cast<double>(candidate.weight);
  }
  std::size_t crossing = 0;
  double sum_before = 0.0;
  while (crossing + 1 < kBuckets && sum_before + bucket_sums_[crossing] < wanted) {
    sum_before += bucket_sums_[crossing++];
  }
  selection_.clear();
  for (const Candidate& candidate : candidates_) {
    if (bucket(candidate) == crossing) selection_.push_back(candidate);
  }
  // Only rounding can leave the last bucket empty: then everything is kept.
  if (!selection_.empty()) keep_through(find_last_of_nucleus(sum_before, wanted));
}

// Halves the selection around its median until the candidate is found where the running sum of the
// best ones reaches `wanted`: linear in their number, whatever their values.
Candidate Sampler::find_last_of_nucleus(double sum_before, double wanted) {
  constexpr std::ptrdiff_t kFewEnoughToSort = 32;
  const auto begin = selection_.begin();
  std::ptrdiff_t low = 0;
  auto high = static_cast<std::ptrdiff_t>(selection_.size());
  double sum = sum_before;
  while (high - low > kFewEnoughToSort) {
    const std::ptrdiff_t middle = low + (high - low) / 2;
    std::nth_element(begin + low, begin + middle, begin + high, is_better);
    double half = 0.0;
    for (auto c = begin + low; c != begin + middle; ++c) half += static_cast<double>(c->weight);
    if (sum + half >= wanted) {
      high = middle;
    } else {
      sum += half;
      low = middle;
    }
  }
  std::sort(begin + low, begin + high, is_better);
  for (; low + 1 < high; ++low) {
    sum += static_cast<double>(begin[low].weight);
    if (sum >= wanted) break;
  }
  return begin[low];
}

}  // namespace turnstile::engine
