#include "gateway/authenticate.h"

#include <cassert>

namespace turnstile::gateway {
namespace {

ApiError error_of(AuthFailure why) {
  switch (why) {
    case AuthFailure::Missing:
    case AuthFailure::Invalid:
      return make_error(ApiCode::InvalidApiKey,
                        "No valid API key: send it as \"Authorization: Bearer KEY\".");
    case AuthFailure::Disabled:
      return make_error(ApiCode::KeyDisabled, "This API key is disabled.");
    case AuthFailure::Expired:
      return make_error(ApiCode::KeyExpired, "This API key has expired.");
  }
  assert(false && "the switch covers every failure");
  return {};
}

}  // namespace

tl::expected<Principal, ApiError> authenticate(Session& session, SpineContext& context) {
  auto principal = context.keys.authenticate(session.head().authorization, context.clock.wall(),
                                             session.known_key());
  if (principal) return std::move(*principal);
  ApiError error = error_of(principal.error().why);
  context.metrics.on_auth_failure();
  context.audit.stranger(session.peer().text, to_string(error.code), error.status());
  return tl::unexpected(std::move(error));
}

}  // namespace turnstile::gateway
