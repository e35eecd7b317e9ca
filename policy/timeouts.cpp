#include "policy/timeouts.h"

#include <cassert>

namespace turnstile::policy {

Duration prefill_timeout(const Timeouts& timeouts, std::int64_t uncached_prompt_tokens) {
  assert(uncached_prompt_tokens >= 0 && "a prompt has no negative tokens");
  // Durations of a policy are at most a week and prompts at most 10^9 tokens, so the product is
  // split into whole thousands and a rest to stay inside 64 bits.
  const std::int64_t per_1k = timeouts.prefill_per_1k_uncached.count();
  const std::int64_t thousands = uncached_prompt_tokens / 1000;
  const std::int64_t rest = uncached_prompt_tokens % 1000;
  constexpr std::int64_t kLongest = std::int64_t{365} * 24 * 3600 * 1'000'000'000;
  if (per_1k > 0 && thousands > kLongest / per_1k) return Duration{kLongest};
  const std::int64_t scaled =
      thousands * per_1k + per_1k / 1000 * rest + (per_1k % 1000 * rest + 999) / 1000;
  if (timeouts.prefill_slack_milli > 0 && scaled > kLongest / timeouts.prefill_slack_milli) {
    return Duration{kLongest};
  }
  const std::int64_t slacked = (scaled * timeouts.prefill_slack_milli + 999) / 1000;
  return timeouts.prefill_base + Duration{slacked};
}

}  // namespace turnstile::policy
