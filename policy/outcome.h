// outcome.h: what admission tells the gateway, and why, for the audit record.
//
// Everything here is a value that owns its text. The records of one request are: the Queued or the
// Refusal that enqueue() returned, one Dispatch (or a Refusal) from dispatch(), at most two pairs
// of Pause and Resume, and one Settlement from on_ended().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "policy/instant.h"
#include "policy/meter_name.h"
#include "policy/request_id.h"
#include "policy/short_list.h"
#include "policy/verdict.h"

namespace turnstile::policy {

// A meter that was looked at and had room. `committed` is the amount before this request.
struct Check {
  MeterName meter;
  std::int64_t limit = 0;  // capacity of the meter, in its unit
  std::int64_t committed = 0;
  std::int64_t asked = 0;
};
// Of the key, its team and its department: rates, budgets and places; and the places of all.
inline constexpr std::size_t kMostChecks = 14;
using Checks = ShortList<Check, kMostChecks>;

// When the first token of a request is expected, counted from the decision.
struct Prediction {
  Duration raw{};     // before correction by what earlier predictions missed
  Duration likely{};  // half of the requests come sooner; decides
  Duration safe{};    // nine of ten come sooner
  std::int64_t ahead_units = 0;  // waiting service that comes first, over all queues
};

// What enqueue() decided about the request's size, and where it stands.
struct Queued {
  std::int64_t max_tokens = 0;  // per choice: asked for, or the default that applies
  std::int64_t kv_blocks = 0;   // worst case, all choices
  std::int64_t estimated_completion_tokens = 0;  // all choices; what shares and budgets reserve
  bool starts_now = false;       // did not wait; the next dispatch() reports its Dispatch
  std::int64_t position = 0;     // requests that wait ahead in its own queue (key and class)
  std::int64_t ahead_units = 0;  // service units of those requests
  TicketUse ticket = TicketUse::None;  // what became of the ticket it showed
  Instant waits_until{};         // not started by then, it is refused
  std::optional<Prediction> prediction;  // absent while nothing runs or the pace is not known
};

// Why this request was next.
struct Pick {
  std::string class_name;
  // Counters of the key at the decision: service units / weight, times 2^20. v - v_min is how far
  // ahead of its turn it was, over all levels: zero without locality slack.
  std::int64_t v = 0;
  std::int64_t v_min = 0;
  bool due = false;  // served for its floor, ahead of higher classes and above its watermark
};

struct KvDecision {
  std::int64_t need_blocks = 0;
  std::int64_t free_blocks = 0;  // before this request
  std::int64_t peak_blocks = 0;  // what all running requests will need at the worst moment, with it
  std::int64_t capacity_blocks = 0;
};

// The request holds its permit: give it to the engine.
struct Dispatch {
  RequestId id{};
  std::int64_t max_tokens = 0;  // per choice
  std::int64_t choices = 1;
  Instant arrived{};
  Instant dispatched{};
  Duration queue_wait{};  // dispatched - arrived
  Pick pick;
  KvDecision kv;
  Checks checks;  // rates, budgets and queue places, as found when it was accepted
};

// The request left the waiting room without being served (queue_deadline, displaced, key_disabled).
struct LateRefusal {
  RequestId id{};
  Refusal refusal;
  Instant arrived{};
};

// The request gives its engine slots and cache blocks away to a request of a higher class. Tell the
// engine before it gets that one. The request waits again, first in its queue, until a Resume.
struct Pause {
  RequestId id{};
  RequestId by{};
};

// The paused request holds its permit again: the engine may go on with it.
struct Resume {
  RequestId id{};
  Instant resumed{};
  bool due = false;  // as in Pick
  KvDecision kv;
};

// Its budget, charged "hard", has paid the last token: end the answer as if max_tokens were
// reached.
struct Exhausted {
  RequestId id{};
};

using Outcome = std::variant<Dispatch, LateRefusal, Pause, Resume, Exhausted>;

// How one meter's reservation ended. `used` is what stays charged.
struct LedgerLine {
  MeterName meter;
  std::int64_t reserved = 0;
  std::int64_t used = 0;
};

// The books of a request that ended.
struct Settlement {
  ShortList<LedgerLine, 3> budgets;  // one per token budget on the path
  std::int64_t service_units = 0;   // charged to the fair shares: prompt computed + 2 * generated
};

// One of the pairs of rate limit headers.
struct RateLine {
  std::string node;            // whose limit it is: "dept", "team" or "key"
  std::int64_t limit = 0;      // per minute, as set
  std::int64_t remaining = 0;  // could be taken now
  Duration until_full{};       // with no further use
};
struct RateView {
  std::optional<RateLine> requests;  // absent: no limit on the path
  std::optional<RateLine> tokens;
};

// One meter for metrics and state. Buckets count what is not available as committed.
struct MeterView {
  std::string name;
  std::int64_t committed = 0;
  std::int64_t capacity = 0;
};

}  // namespace turnstile::policy
