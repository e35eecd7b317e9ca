// plain_routes.h: every route that generates nothing: models, tokenize, health, metrics, drain, and
// the answers to targets and methods that do not exist.
//
// Order: who asks (but for health), then 404, then 405, so that a stranger learns nothing about
// which routes there are. Who asks is an API key, on the admin listener gateway/admin_access.h.
//
// Thread: I/O. Tests: tests/gateway/plain_routes_test.cpp.
#pragma once

#include "gateway/mailbox.h"
#include "gateway/http/routes.h"

namespace turnstile::gateway {

class Session;
struct SpineContext;

Awaitable<void> answer_plain(Session& session, SpineContext& context, RouteMatch route);

}  // namespace turnstile::gateway
