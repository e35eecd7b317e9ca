// health.h: the one word of /health, /livez and /readyz.
//
//   /livez, /health   ok, or `stalled`: the engine's heartbeat is old or the engine is gone
//   /readyz           also `draining` and `audit`: the records cannot be written
//
// Thread: I/O; asks nothing that could wait, so a stuck engine cannot make it slow.
// Tests:  tests/gateway/plain_routes_test.cpp.
#pragma once

#include <string_view>

#include "gateway/spine_context.h"

namespace turnstile::gateway {

// Steps of the largest chunk on the slowest machine take below 2 s, and an idle engine beats each
// second.
inline constexpr policy::Duration kEngineStaleAfter = std::chrono::seconds(10);

inline constexpr std::string_view kHealthy = "ok";

std::string_view liveness(const SpineContext& context);
std::string_view readiness(const SpineContext& context);

}  // namespace turnstile::gateway
