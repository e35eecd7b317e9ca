#include "gateway/spine_turn.h"

#include <algorithm>

namespace turnstile::gateway {

void end_turn(SpineContext& context) {
  const policy::Instant now = context.clock.now();
  context.texts.take_done();
  context.live.take_reports(context.engine, context.admission, context.metrics, now);
  if (context.engine.fault() && !context.engine_has_failed) {
    context.engine_has_failed = true;
    context.live.fail_all();
    context.drain.end_now();
  }
  context.deadlines.fire_due(now);
  context.live.dispatch(context.admission, now);
  context.drain.advance(now, context.open_requests == 0);
  const auto audit_due = context.audit.next_deadline();
  if (audit_due && *audit_due <= now) context.audit.tick();
}

std::optional<policy::Instant> next_wake(const SpineContext& context) {
  std::optional<policy::Instant> earliest;
  for (const auto& deadline :
       {context.deadlines.next(), context.admission.next_deadline(),
        context.drain.next_deadline(), context.audit.next_deadline()}) {
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  return earliest;
}

}  // namespace turnstile::gateway
