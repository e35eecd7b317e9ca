// records.h: what is kept of a request, and the two line files beside the audit log.
//
// One RequestRecord grows with its request: the spine fills it, and from it come the audit records,
// the line in requests.jsonl and the metrics, so that the three cannot disagree.
//
//   requests.jsonl   one line per arrived request when it has ended, whatever its end
//   events.jsonl     configuration, reloads, drain, keys
//
// Times are RFC 3339 UTC with microseconds, durations `_ms` decimals, counts integers; what is
// absent is left out. No text of a prompt or a completion anywhere.
//
// Thread: I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/clock.h"
#include "gateway/records/line_writer.h"
#include "policy/facts.h"
#include "policy/instant.h"
#include "policy/outcome.h"
#include "policy/verdict.h"

namespace turnstile::gateway {

// How an arrived request ended; each ends exactly once.
enum class RequestOutcome : std::uint8_t { Refused, Completed, ClientGone, TimedOut, Fault };
std::string_view to_string(RequestOutcome outcome);  // "refused", "client_gone", ...

// Where an arrived request is. Metrics moves it along, so that at every scrape
// arrived = ended by outcome + queued + running.
enum class RequestPhase : std::uint8_t {
  New,      // not yet arrived (no good key, or its body is not read)
  Arrived,  // valid, no verdict yet: counted as queued, class still unknown
  Queued,   // has a class, waits
  Running,  // holds a permit
  Paused,   // holds a permit, the engine took its blocks away: counted as queued
  Ended
};

struct RequestRecord {
  std::string request_id;
  std::string client_request_id;  // empty: none, or not acceptable
  std::string_view route;         // a literal such as "/v1/chat/completions"
  std::string address;            // the peer's, without port
  bool stream = false;
  std::uint32_t choices = 1;
  std::uint32_t prompts = 1;

  // Known after Admission::resolve(); the names are copied from it once.
  std::string department;
  std::string team;
  std::string key_id;
  std::string service_class;
  std::string requested_class;  // empty: none was asked for
  std::string clamped_by;       // empty: not clamped
  std::string model;            // the name that was asked for
  std::string serves;           // the engine's name
  std::string policy_revision;
  void set_resolved(const policy::Resolved& resolved);

  // The request's own time line: arrived <= dispatched <= first_token <= last_token <= ended.
  WallTime arrived_wall{};
  policy::Instant arrived{};  // fully read
  std::optional<policy::Instant> dispatched;
  std::optional<policy::Instant> first_token;  // first content handed to the connection
  std::optional<policy::Instant> last_token;
  std::optional<policy::Instant> ended;

  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t completion_tokens = 0;      // over all choices
  std::uint64_t longest_choice_tokens = 0;  // 0: completion_tokens
  std::uint64_t max_tokens = 0;             // per choice; 0: not known
  std::uint32_t pauses = 0;  // of the request, however many sequences it has

  // What policy decided and why, as it said so.
  std::optional<policy::Queued> queued;
  std::optional<policy::Dispatch> dispatch;
  std::optional<policy::Refusal> refusal;
  std::string ticket;  // given with the refusal; empty: none
  std::optional<policy::Settlement> settlement;

  RequestPhase phase = RequestPhase::New;
  RequestOutcome outcome = RequestOutcome::Completed;
  std::string_view code;           // a literal of the interface; empty when all went well
  std::string_view finish_reason;  // "stop", "length"; empty when there was none
  std::string_view end_code;       // "budget_exhausted": policy ended a completed answer
  int status = 0;                  // what the client saw, 499 when it saw nothing
  // The server ended before the audit log had the end, which is written at the next start with
  // `"recovered":true`; what was computed and when is left out if requests.jsonl does not say it.
  bool is_recovered = false;
  bool is_end_unknown = false;

  // Queue, prefill and decode add up to last_token - arrived. Absent when a phase was not reached.
  std::optional<policy::Duration> queue_time() const;
  std::optional<policy::Duration> prefill_time() const;
  std::optional<policy::Duration> decode_time() const;
  std::optional<policy::Duration> time_to_first_token() const;
  std::optional<policy::Duration> time_per_output_token() const;  // absent for one token
  policy::Duration total_time() const;                            // 0 before the end
};

double to_ms(policy::Duration duration);

// The line of requests.jsonl, with its line feed. `count` > 1: a coalesced refusal.
void append_request_line(std::string& out, const RequestRecord& record, std::uint64_t count = 1);

// events.jsonl. Each call is one line, written at once.
class EventLog {
 public:
  EventLog(const Clock& clock, LineSink& sink) : clock_(clock), sink_(sink) {}

  using Fields = std::span<const std::pair<std::string_view, std::string>>;

  // {"ts":..,"event":"reload","by":"file",...fields as strings}
  void write(std::string_view event, std::string_view by, Fields fields);
  // The same with a member whose value is JSON already (the effective configuration).
  void write_json(std::string_view event, std::string_view by, std::string_view name,
                  std::string_view json);

 private:
  const Clock& clock_;
  LineSink& sink_;
};

}  // namespace turnstile::gateway
