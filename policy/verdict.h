// verdict.h: why policy said no.
//
// A refusal is an expected answer, so it is a value. It names the code of the public interface, the
// meter that was full, whose meter it is, and how long to wait. The gateway alone turns it into a
// status, a body and headers; policy only supplies the facts and one sentence.
//
// Invariant: a refused request leaves every meter and every counter as if it had never come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/instant.h"
#include "policy/request_id.h"

namespace turnstile::policy {

// The codes of the public interface that policy can answer with. to_string() gives the exact text.
enum class RefusalCode : std::uint8_t {
  // 400: the request itself can never be served.
  InvalidValue,           // max_tokens above a limit of policy, unknown class, n above the slots
  ContextLengthExceeded,  // prompt or prompt + max_tokens does not fit the context or the KV cache
  InputTooLong,           // prompt above max_input_tokens
  ExceedsBudgetCapacity,  // costs more than a full token bucket holds
  // 403 and 404: this key may not do this.
  KeyDisabled,      // the key, its team or its department is disabled or gone
  ModelNotAllowed,  // the model exists but is not on the list of key, team or department
  ModelNotFound,
  // 429: load and limits.
  RateRequests,
  BudgetTokens,
  QueueFull,
  WouldMissDeadline,  // its first token is predicted to come too late
  Displaced,      // gave its place in a full queue to a request of a higher class
  QueueDeadline,  // waited for its class's queue_ttl
};

// The code as clients and records see it, such as "rate_requests".
std::string_view to_string(RefusalCode code);

// True when the interface counts the answer as a refusal (policy 400, 403, 404, 429), false when it
// is an invalid request (the other 400s).
bool counts_as_refusal(RefusalCode code);

// What became of the ticket that a request showed (ticket_book.h).
enum class TicketUse : std::uint8_t {
  None,     // it showed none
  Kept,     // it came as told and keeps its place
  Early,    // it came too soon; the ticket stays good
  Mismatch, // another class or model, or a larger request than the one that was refused
  Unknown,  // never given, another key's, used before, or too late
};
std::string_view to_string(TicketUse use);

struct Refusal {
  RefusalCode code = RefusalCode::InvalidValue;

  // The meter or setting that said no, such as "tokens_per_minute/team/lab" or "queue/all".
  // Empty when no number was involved (model_not_found, key_disabled).
  std::string meter;
  // Whose it is: "team/lab", "class/batch", "model/chat", "key/anna", "engine", "all"; may be
  // empty.
  std::string scope;

  std::int64_t limit = 0;      // the limit in the meter's unit; for a bucket the setting per minute
  std::int64_t committed = 0;  // how much of it was taken at the decision
  std::int64_t asked = 0;      // how much the request would have added

  // The request field at fault for the 400s and 404: "max_tokens", "model", "n", "class", "prompt";
  // empty otherwise. "prompt" and "class" are generic: the gateway puts the name the client used.
  std::string param;

  // How long to wait before trying again, jitter included. Absent when waiting cannot help.
  std::optional<Duration> retry_after;

  // With it a client that waits as told keeps its place; absent when there is nothing to keep.
  std::optional<RequestId> ticket;
  TicketUse shown = TicketUse::None;  // what it came with
};

// One sentence for people: what was full, whose it is and the limit. Holds no text of the client.
std::string sentence(const Refusal& refusal);

// `wait` plus 0 to 25 % of it, chosen by a hash of `seed` (the request id). Never shorter than
// `wait`: a client that comes back earlier would be refused again.
Duration with_jitter(Duration wait, std::uint64_t seed);

}  // namespace turnstile::policy
