// generation_limits.h: which of a running request's time limits comes next.
//
//   dispatched --prefill--> first token --stall--> token --stall--> ... end
//       '----------------------- total -------------------------------'
//
// A pause stops the limits on prefill and stall, not the total. Pure; the numbers are policy's
// (policy/timeouts.h), the total also ends with LimitsConfig::request_timeout.
//
// Thread: any; a value.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gateway/api/api_error.h"
#include "policy/instant.h"
#include "policy/timeouts.h"

namespace turnstile::gateway {

struct GenerationLimits {
  policy::Timeouts timeouts;
  policy::Duration request_timeout{};
  policy::Instant dispatched{};
  std::int64_t prompt_tokens = 0;

  struct Limit {
    policy::Instant at{};
    ApiCode code = ApiCode::DecodeTimeout;
  };

  // `last_token_at` is absent before the first token.
  Limit next(std::optional<policy::Instant> last_token_at, bool is_paused) const {
    const Limit total{dispatched + std::min(timeouts.total, request_timeout),
                      ApiCode::DecodeTimeout};
    if (is_paused) return total;
    const Limit step =
        last_token_at
            ? Limit{*last_token_at + timeouts.stall, ApiCode::DecodeStall}
            : Limit{dispatched + policy::prefill_timeout(timeouts, prompt_tokens),
                    ApiCode::PrefillTimeout};
    return step.at < total.at ? step : total;
  }
};

}  // namespace turnstile::gateway
