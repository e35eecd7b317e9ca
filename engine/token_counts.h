// token_counts.h: which tokens a sequence has seen, and how often it has generated them.
//
// The penalties need it for the few hundred distinct tokens of a sequence, so it is a list, not an
// array over the vocabulary. Empty and free of charge when a request asks for no penalty.
//
// Thread: engine thread. Cost: construction O(prompt log prompt), add() O(distinct tokens); add()
// does not allocate within the capacity promised to the constructor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/token_id.h"

namespace turnstile::engine {

class TokenCounts {
 public:
  TokenCounts() = default;  // counts nothing
  TokenCounts(const SamplingParams& params, std::span<const TokenId> prompt,
              std::size_t max_completion_tokens);

  // One generated token.
  void add(TokenId token);

  bool active() const { return active_; }
  std::span<const TokenId> tokens() const { return tokens_; }           // distinct
  std::span<const std::uint32_t> generated() const { return generated_; }  // 0: prompt only

 private:
  bool active_ = false;
  std::vector<TokenId> tokens_;
  std::vector<std::uint32_t> generated_;
};

}  // namespace turnstile::engine
