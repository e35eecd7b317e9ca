// audit.h: the audit log: every decision and every end, hash-chained.
//
// A line is one JSON object:
//
//   {"seq":7,"prev":"<hash of line 6>","ts":"...","mono_us":..,"kind":"refused", ... ,"hash":"..."}
//    '---------------------------- these exact bytes, SHA-256 ---------------'
//
// `prev` of the first line is 64 zeros. An edited, removed, added or moved line breaks the chain at
// the place where it happened (gateway/records/audit_verify.h finds it). The chain crosses files
// and starts of the program.
//
//   kind        when
//   refused     policy or the gateway said no to an arrived request (alone)
//   admitted    a permit was given; followed by one `ended` of the same request_id
//   ended       the end of an admitted request; alone when the client left the queue. With
//               `"recovered":true` it was written at the next start, because the server was killed
//               before: outcome `fault`, code `internal_error`, nothing known of its tokens,
//               unless requests.jsonl has its end already
//   stranger    failed authentication: one a minute and address, with a count
//   policy      a policy revision came into force
//   key         a key was added, changed, revoked, closed or is gone
//   recovered   the file ended in part of a line (a crash) or in zeros (a power cut) and what came
//               after them; that was moved aside
//   checkpoint  each 1,000 records or 60 s with records: seq and head of the chain, and how many
//               admitted requests are `open`, the oldest since record `open_from`
//
// While the sink is not writable nobody gets a line for nothing: strangers are only counted, and
// what is merged, as the checkpoint, waits until the sink is writable again.
//
// Above 100 refusals in a second by one key, the rest of that second becomes one record with a
// `count`, here and in requests.jsonl; the sums over `count` equal the metrics.
//
// Durability: mode async. A record is handed to the writer at once and synced within a second, so
// durable() is immediately true; stricter modes will make the spine wait for it.
//
// Thread:  I/O. Cost: append is formatting plus one SHA-256 of 0.3 to 1 KiB, a few microseconds; an
//          allocation for an admitted request.
// Memory:  the ids of the requests that have not ended.
// Tests:   tests/gateway/audit_test.cpp, audit_verify_test.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/clock.h"
#include "gateway/records/line_writer.h"
#include "gateway/records/records.h"
#include "policy/instant.h"

namespace turnstile::gateway {

struct AuditHead {
  std::uint64_t seq = 0;                       // of the last record; 0: none yet
  std::string hash = std::string(64, '0');     // lower-case hexadecimal
};

// A request that has no `ended` in the log.
struct UnendedRequest {
  std::string admitted;      // its line there
  std::string request_line;  // its line in requests.jsonl, if that was still written
};

// What open_audit_folder() found, and where to go on.
struct AuditStart {
  AuditHead head;
  std::uint64_t file_number = 1;
  std::optional<std::string> torn_tail;  // name of the file that got the part of a line
  std::vector<UnendedRequest> unended;  // what a server that was killed left open
  std::vector<std::string> unlisted;  // ends of which requests.jsonl has no line
};

// Finds the last record below state_dir/audit, moves a torn last line aside and reads back to the
// oldest request without an end (gateway/records/audit_tail.h). Fails with a
// sentence when the last whole line is not a record of ours, or zeros stand before records that
// came seconds later, which no power cut leaves: going on would hide the damage.
tl::expected<AuditStart, std::string> open_audit_folder(const std::filesystem::path& state_dir);

class AuditLog {
 public:
  // Writes `recovered` and what is missing of ends, here and in requests.jsonl.
  AuditLog(const Clock& clock, LineSink& sink, AuditStart start);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // One record of an arrived request. refused() also writes the line of requests.jsonl, and
  // coalesces both; ended() writes both. admitted() returns the sequence number for durable().
  void refused(const RequestRecord& record);
  std::uint64_t admitted(const RequestRecord& record);
  void ended(const RequestRecord& record);

  // Failed authentication from this address; `code` is the code of the answer.
  void stranger(std::string_view address, std::string_view code, int status);

  void policy(std::string_view revision, std::string_view content_hash, std::string_view file);
  // `change` is "added", "changed", "revoked", "closed" (a mistake in its entry) or "removed".
  void key(std::string_view key_id, std::string_view team, std::string_view change);

  // Whether the record survives a crash as far as the mode promises.
  bool durable(std::uint64_t seq) const;

  // Writes coalesced records whose second or minute is over, and the checkpoint when one is due.
  // Call it at next_deadline() at the latest.
  void tick();
  std::optional<policy::Instant> next_deadline() const;

  // Everything that is still coalesced, and a last checkpoint. Called once, before the sink goes.
  void close();

  const AuditHead& head() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
