// text_work.h: a request's text is read as JSON and counted in tokens: at once when it is short, by
// a thread of the text pool when it is long.
//
// A long text is counted only after its request has a place (policy/admission.h), and its bytes
// stay charged to the body budget until then, so that neither time nor memory can be piled up here.
//
// Thread: I/O. `session` and `context` outlive the coroutines.
// Tests:  tests/gateway/text_pool_test.cpp, tests/sim/spine_sim_test.cpp.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/api/generation_request.h"
#include "gateway/mailbox.h"
#include "gateway/prompt_tokens.h"
#include "gateway/request_end.h"
#include "gateway/text_pool.h"
#include "policy/facts.h"

namespace turnstile::gateway {

class Session;
struct Principal;
struct SpineContext;

// 503: as many long texts as the pool takes are being worked on.
ApiError no_room_for_text();

// The class by which a text is worked on before it says what it asks for.
std::size_t likely_class(const Session& session, const SpineContext& context,
                         std::string_view key_id);

// Until the ticket is done. Present: what has ended the request before.
Awaitable<std::optional<RequestEnd>> wait_for_text(Session& session, const TextTicket& ticket);

// The session's body as a request. The error is the answer to give; absent when the client is gone.
Awaitable<tl::expected<GenerationRequest, std::optional<ApiError>>> read_request(
    Session& session, SpineContext& context, Api api, const Principal& principal);

// Whether a place has to be taken before count_tokens().
bool is_long(const GenerationRequest& request, const SpineContext& context);

// The prompts of the request, whose texts are gone afterwards. The error is the answer to an
// invalid request, or what has ended the request meanwhile.
using CountFailure = std::variant<ApiError, RequestEnd>;
Awaitable<tl::expected<std::vector<TokenIds>, CountFailure>> count_tokens(
    Session& session, SpineContext& context, const policy::Resolved& resolved,
    GenerationRequest& request, WallTime now);

}  // namespace turnstile::gateway
