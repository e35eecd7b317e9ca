// answer_lines.h: the text of the lines that standing_lines.h gives: x-turnstile-class,
// x-turnstile-policy, OpenAI's six x-ratelimit-*, and the same limits as RateLimit-Policy and
// RateLimit of the IETF draft.
//
// Of the limits per minute on the key's path the one with the least remaining is shown; a limit
// that is not set has no lines. The time until the bucket is full is "12ms", "1.2s" or "3m20s".
//
// Thread: I/O.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <string>
#include <string_view>

#include "policy/admission.h"
#include "policy/instant.h"
#include "policy/outcome.h"

namespace turnstile::gateway {

void append_answer_lines(std::string& out, std::string_view service_class,
                         std::string_view policy_revision, const policy::RateView& rates);

// The text of x-ratelimit-reset-*.
std::string reset_text(policy::Duration duration);

}  // namespace turnstile::gateway
