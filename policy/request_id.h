// request_id.h: the number by which policy knows one request.
//
// Chosen by the caller, unique among the requests that policy holds (asserted). Policy uses it as a
// name and as the seed of the Retry-After jitter; it never orders requests by it.
#pragma once

#include <cstdint>

namespace turnstile::policy {

enum class RequestId : std::uint64_t {};

}  // namespace turnstile::policy
