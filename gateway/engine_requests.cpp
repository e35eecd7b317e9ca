#include "gateway/engine_requests.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "gateway/live_request.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {
namespace {

// When the first token is due, in microseconds of our clock: as long after the arrival as the class
// promises, or sooner when the client says so.
std::uint64_t first_token_due(const SpineContext& context, const RequestRecord& record,
                              const policy::Resolved& resolved,
                              std::optional<policy::Duration> client_deadline) {
  policy::Duration within = context.admission.policy().classes[resolved.class_index].ttft;
  if (client_deadline) within = std::min(within, *client_deadline);
  const auto due = (record.arrived + within).time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(due).count());
}

}  // namespace

std::vector<engine::Request> engine_requests(SpineContext& context, const LiveRequest& live,
                                             const GenerationRequest& request,
                                             std::vector<TokenIds> prompts,
                                             const policy::Resolved& resolved,
                                             std::optional<policy::Duration> client_deadline) {
  engine::Request shared;
  shared.choices = request.choices;
  shared.sampling = request.sampling;
  if (!request.has_seed) {
    context.random.fill(std::as_writable_bytes(std::span(&shared.sampling.seed, 1)));
  }
  shared.stop = request.stop;
  shared.stop.max_tokens = static_cast<std::uint32_t>(live.record().dispatch->max_tokens);
  shared.skip_special_tokens = request.skip_special_tokens;
  shared.salt = context.salts.of(resolved.team, request.cache_salt);
  shared.priority = static_cast<std::int32_t>(resolved.class_index);
  shared.deadline = first_token_due(context, live.record(), resolved, client_deadline);
  shared.token_gap_ms =
      std::chrono::duration<float, std::milli>(resolved.timeouts.token_gap).count();

  std::vector<engine::Request> requests;
  requests.reserve(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back(shared);
    requests.back().id = engine_request_id(live.id(), i);
    context.prefixes.note(shared.salt, prompts[i]);
    requests.back().prompt = std::move(prompts[i]);
  }
  return requests;
}

}  // namespace turnstile::gateway
