// engine_requests.h: what a dispatched request asks of the engine, one value for each prompt.
//
// Limits, class and deadline are those of the verdict; a seed that the client did not give is drawn
// here, once for all prompts. The prompts are noted as seen (prefix_hints.h).
//
// Thread: I/O.
#pragma once

#include <optional>
#include <vector>

#include "engine/request.h"
#include "gateway/api/generation_request.h"
#include "gateway/prompt_tokens.h"
#include "policy/admission.h"

namespace turnstile::gateway {

class LiveRequest;
struct SpineContext;

std::vector<engine::Request> engine_requests(SpineContext& context, const LiveRequest& live,
                                             const GenerationRequest& request,
                                             std::vector<TokenIds> prompts,
                                             const policy::Resolved& resolved,
                                             std::optional<policy::Duration> client_deadline);

}  // namespace turnstile::gateway
