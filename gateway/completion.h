// completion.h: the spine: the life of one generating request, from its header to its audit line.
//
//   5 key -> 6 body, class, model, tokens -> 7 verdict -> 8 waiting room -> 9 engine -> 10, 11
//   stream -> 12 settle, audit, answer's end
//
// complete() is one coroutine of consecutive statements; the numbers are those of the tour in
// ARCHITECTURE.md. It waits at one mailbox for whatever comes first: tokens, policy, the client's
// end, a deadline, the end of the server. The first terminal event decides how the request ends.
//
// Promises:
//   1. A request that arrived ends once: one line of audit (`refused`, or `admitted` and `ended`,
//      or `ended` alone), one outcome in the metrics, one line in requests.jsonl.
//   2. Whatever happens, what it holds is given back in LiveRequest::release().
//   3. No status is sent before dispatch, and no text after a cancel.
//
// Thread:    I/O. `session` and `context` outlive the coroutine.
// Tests:     tests/gateway/completion_test.cpp, tests/sim/spine_sim_test.cpp (cancels and faults at
//            every point where it waits).
#pragma once

#include "gateway/mailbox.h"
#include "gateway/http/routes.h"

namespace turnstile::gateway {

class Session;
struct SpineContext;

Awaitable<void> complete(Session& session, SpineContext& context, RouteMatch route);

}  // namespace turnstile::gateway
