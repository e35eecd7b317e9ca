// token_routes.h: /tokenize and /detokenize.
//
// They hold no place, so long ones are bounded by the text pool and the body budget alone.
//
// Thread: I/O. Tests: tests/gateway/plain_routes_test.cpp.
#pragma once

#include "gateway/http/routes.h"
#include "gateway/mailbox.h"

namespace turnstile::gateway {

class Session;
struct Principal;
struct SpineContext;

// REQUIRES: route is Tokenize or Detokenize. `principal` outlives the coroutine.
Awaitable<void> answer_tokens(Session& session, SpineContext& context, const Principal& principal,
                              Route route);

}  // namespace turnstile::gateway
