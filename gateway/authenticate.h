// authenticate.h: the first thing that happens to a request that needs a key.
//
// One answer for a key that is missing, malformed, unknown or wrong, so that it tells nothing about
// which keys exist. The failure is counted and noted by address here.
//
// Thread: I/O. Cost: one HMAC, about 1 us, for the first request of a connection.
// Tests:  tests/gateway/plain_routes_test.cpp (status by header), tests/gateway/keys_test.cpp.
#pragma once

#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/keys/keys.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {

tl::expected<Principal, ApiError> authenticate(Session& session, SpineContext& context);

}  // namespace turnstile::gateway
