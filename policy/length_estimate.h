// length_estimate.h: how long the answers of one key usually are.
//
// An exponential mean over finished answers, one per (key, model, class): starts at 64 tokens and
// moves a fifth of the way to each new length. Kept in thousandths of a token, because a fifth of a
// small difference would otherwise be lost.
//
// Used to reserve before the length is known. Never reads the length of a running answer.
#pragma once

#include <algorithm>
#include <cstdint>

namespace turnstile::policy {

class LengthEstimate {
 public:
  static constexpr std::int64_t kStartTokens = 64;

  // Expected tokens of one choice that may not exceed `max_tokens`; at least 1.
  std::int64_t tokens(std::int64_t max_tokens) const {
    const std::int64_t largest = std::max<std::int64_t>(1, max_tokens);
    return std::clamp<std::int64_t>((milli_ + 999) / 1000, 1, largest);
  }

  void learn(std::int64_t tokens) { milli_ += (tokens * 1000 - milli_) / 5; }

 private:
  std::int64_t milli_ = kStartTokens * 1000;
};

}  // namespace turnstile::policy
