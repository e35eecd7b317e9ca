#include "engine/token_counts.h"

#include <algorithm>

namespace turnstile::engine {

TokenCounts::TokenCounts(const SamplingParams& params, std::span<const TokenId> prompt,
                         std::size_t max_completion_tokens) {
  const bool counts_prompt = params.repetition_penalty != 1.0F;
  active_ = counts_prompt || params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F;
  if (!active_) return;
  if (counts_prompt) {
    tokens_.assign(prompt.begin(), prompt.end());
    std::sort(tokens_.begin(), tokens_.end());
    tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
  }
  generated_.assign(tokens_.size(), 0);
  tokens_.reserve(tokens_.size() + max_completion_tokens);
  generated_.reserve(generated_.size() + max_completion_tokens);
}

void TokenCounts::add(TokenId token) {
  if (!active_) return;
  const auto known = std::find(tokens_.begin(), tokens_.end(), token);
  if (known != tokens_.end()) {
    ++generated_[static_cast<std::size_t>(known - tokens_.begin())];
    return;
  }
  tokens_.push_back(token);
  generated_.push_back(1);
}

}  // namespace turnstile::engine
