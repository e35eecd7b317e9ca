#include "gateway/health.h"

namespace turnstile::gateway {

std::string_view liveness(const SpineContext& context) {
  const bool is_stale = context.clock.now() - context.engine.last_beat() > kEngineStaleAfter;
  return is_stale || context.engine.fault() ? "stalled" : kHealthy;
}

std::string_view readiness(const SpineContext& context) {
  if (context.drain.phase() != ServePhase::Serving) return "draining";
  if (!context.records.is_writable()) return "audit";
  return liveness(context);
}

}  // namespace turnstile::gateway
