// timeouts.h: how long each phase of a request may take.
//
// Policy states the numbers; the gateway keeps the timers and ends the request (queue_ttl excepted,
// which Admission keeps itself). All functions are pure.
//
//   arrival --queue_ttl--> dispatch --prefill_timeout--> first token --stall--> next token ... end
//                          '-------------------- total ------------------------------------'
#pragma once

#include <cstdint>

#include "policy/instant.h"

namespace turnstile::policy {

struct Timeouts {
  Duration queue_ttl{};                // from arrival to dispatch
  Duration prefill_base{};             // from dispatch to the first token: base +
  Duration prefill_per_1k_uncached{};  //   this for each 1,000 prompt tokens to compute,
  std::int64_t prefill_slack_milli = 1000;  // times this many thousandths
  Duration stall{};                    // between two tokens
  // No timeout but a target: while this class decodes, the engine cuts prompts and lets lower
  // classes of at least twice the target sit steps out, so that a step takes no longer (`tpot`).
  Duration token_gap{};
  Duration total{};                    // from dispatch to the end

  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

// The limit from dispatch to the first token for a prompt with that many tokens to compute (the
// whole prompt while nothing is known about the cache).
// base + per_1k_uncached * uncached_prompt_tokens / 1000 * slack, rounded up to a nanosecond.
Duration prefill_timeout(const Timeouts& timeouts, std::int64_t uncached_prompt_tokens);

}  // namespace turnstile::policy
