#include "gateway/records/audit.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/records/audit_line.h"
#include "gateway/records/audit_records.h"
#include "gateway/records/coalesce.h"
#include "gateway/records/recovered_record.h"
#include "gateway/api/json_object.h"
#include "gateway/records/sha256.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {
namespace {

constexpr std::uint64_t kCheckpointRecords = 1'000;
constexpr policy::Duration kCheckpointPeriod = std::chrono::seconds(60);

}  // namespace

struct AuditLog::State {
  State(const Clock& given_clock, LineSink& given_sink) : clock(given_clock), sink(given_sink) {}

  const Clock& clock;
  LineSink& sink;
  Sha256 sha256;
  AuditHead head;
  std::string line;     // reused: grows to the longest record and stays
  std::string request;  // the same for requests.jsonl
  std::uint64_t since_checkpoint = 0;
  std::optional<policy::Instant> checkpoint_due;  // set while there are records since the last
  // Admitted and not ended: the seq of `admitted` by request.
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> open;
  RefusalCoalescer refusals;
  StrangerCoalescer strangers;
  std::vector<RefusalCoalescer::Group> due_refusals;
  std::vector<StrangerCoalescer::Group> due_strangers;
  bool is_closed = false;

  template <typename Members>
  void append(std::string_view kind, const Members& members);
  void append_checkpoint();
  void append_end(const RequestRecord& record, bool has_request_line = false);
  void list_ends(const std::vector<std::string>& unlisted);
  void end_what_was_open(const std::vector<UnendedRequest>& unended);
  void write_request_line(const RequestRecord& record, std::uint64_t count = 1);
  void write_refusal(const RequestRecord& record, std::uint64_t count);
  void write_stranger(std::string_view address, std::string_view code, int status,
                      std::uint64_t count);
  void write_due(policy::Instant now);
};

// Head, members, seal, hand over. `members` appends to the JsonObject it is given.
template <typename Members>
void AuditLog::State::append(std::string_view kind, const Members& members) {
  assert(!is_closed && "no record after close()");
  const policy::Instant now = clock.now();
  const auto mono =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  line.clear();
  JsonObject object(line);
  object.count("seq", head.seq + 1);
  object.text("prev", head.hash);
  object.text("ts", timestamp(clock.wall()));
  object.integer("mono_us", mono.count());
  object.text("kind", kind);
  members(object);
  head.hash = seal(line, sha256);
  ++head.seq;
  assert(line.size() <= kMaxAuditLineBytes && "a record is bounded by the names in it");
  sink.write(LineStream::Audit, line);

  if (kind == "checkpoint") return;
  ++since_checkpoint;
  if (!checkpoint_due) checkpoint_due = now + kCheckpointPeriod;
  if (since_checkpoint >= kCheckpointRecords) append_checkpoint();
}

void AuditLog::State::append_checkpoint() {
  const AuditHead covered = head;
  append("checkpoint", [&](JsonObject& object) {
    object.count("records", since_checkpoint);
    object.count("head_seq", covered.seq);
    object.text("head_hash", covered.hash);
    object.count("open", open.size());
    if (open.empty()) return;
    std::uint64_t oldest = covered.seq;
    for (const auto& [id, seq] : open) oldest = std::min(oldest, seq);
    object.count("open_from", oldest);
  });
  since_checkpoint = 0;
  checkpoint_due.reset();
}

void AuditLog::State::append_end(const RequestRecord& record, bool has_request_line) {
  // A checkpoint may follow at once, and must not take the request for open.
  if (const auto found = open.find(record.request_id); found != open.end()) open.erase(found);
  append("ended", [&](JsonObject& object) { append_ended(object, record); });
  if (!has_request_line) write_request_line(record);
}

void AuditLog::State::write_request_line(const RequestRecord& record, std::uint64_t count) {
  request.clear();
  append_request_line(request, record, count);
  sink.write(LineStream::Requests, request);
}

void AuditLog::State::list_ends(const std::vector<std::string>& unlisted) {
  RecoveredRecord recovered;
  for (const std::string& end : unlisted) {
    if (!recovered.read_end_record(end)) continue;
    write_request_line(recovered.record(), recovered.count());
  }
}

// All are open until their end is written: a server that is killed here leaves the rest to the
// next one.
void AuditLog::State::end_what_was_open(const std::vector<UnendedRequest>& unended) {
  for (const UnendedRequest& one : unended) {
    const auto parts = take_apart(one.admitted);
    if (parts) open.emplace(subject_of(one.admitted).request_id, parts->seq);
  }
  RecoveredRecord recovered;
  for (const UnendedRequest& one : unended) {
    if (recovered.read(one)) append_end(recovered.record(), !one.request_line.empty());
  }
  open.clear();
}

void AuditLog::State::write_refusal(const RequestRecord& record, std::uint64_t count) {
  append("refused", [&](JsonObject& object) { append_refused(object, record, count); });
  write_request_line(record, count);
}

void AuditLog::State::write_stranger(std::string_view address, std::string_view code, int status,
                                     std::uint64_t count) {
  append("stranger", [&](JsonObject& object) {
    object.text("address", address);
    object.count("count", count);
    object.text("code", code);
    object.integer("status", status);
  });
}

void AuditLog::State::write_due(policy::Instant now) {
  refusals.take_due(now, due_refusals);
  for (const auto& group : due_refusals) write_refusal(group.sample, group.count);
  due_refusals.clear();
  strangers.take_due(now, due_strangers);
  for (const auto& group : due_strangers) {
    write_stranger(group.address, group.code, group.status, group.count);
  }
  due_strangers.clear();
}

AuditLog::AuditLog(const Clock& clock, LineSink& sink, AuditStart start)
    : state_(std::make_unique<State>(clock, sink)) {
  state_->head = std::move(start.head);
  state_->line.reserve(4'096);
  state_->request.reserve(2'048);
  if (start.torn_tail) {
    state_->append("recovered", [&](JsonObject& object) { object.text("aside", *start.torn_tail); });
  }
  state_->list_ends(start.unlisted);
  state_->end_what_was_open(start.unended);
}

AuditLog::~AuditLog() = default;

void AuditLog::refused(const RequestRecord& record) {
  assert(record.outcome == RequestOutcome::Refused && "a refusal");
  const policy::Instant now = state_->clock.now();
  if (state_->sink.is_writable()) state_->write_due(now);
  if (state_->refusals.note(now, record)) state_->write_refusal(record, 1);
}

std::uint64_t AuditLog::admitted(const RequestRecord& record) {
  state_->open.emplace(record.request_id, state_->head.seq + 1);
  state_->append("admitted", [&](JsonObject& object) { append_admitted(object, record); });
  return state_->head.seq;
}

void AuditLog::ended(const RequestRecord& record) {
  assert(record.outcome != RequestOutcome::Refused && "a refusal is recorded by refused()");
  state_->append_end(record);
}

void AuditLog::stranger(std::string_view address, std::string_view code, int status) {
  const policy::Instant now = state_->clock.now();
  const bool is_writable = state_->sink.is_writable();
  if (is_writable) state_->write_due(now);
  std::string_view name;
  if (state_->strangers.note(now, address, code, status, is_writable, name)) {
    state_->write_stranger(name, code, status, 1);
  }
}

void AuditLog::policy(std::string_view revision, std::string_view content_hash,
                      std::string_view file) {
  state_->append("policy", [&](JsonObject& object) {
    object.text("revision", revision);
    object.text("sha256", content_hash);
    object.text_if("file", file);
  });
}

void AuditLog::key(std::string_view key_id, std::string_view team, std::string_view change) {
  state_->append("key", [&](JsonObject& object) {
    object.text("key_id", key_id);
    object.text_if("team", team);
    object.text("change", change);
  });
}

bool AuditLog::durable(std::uint64_t seq) const { return seq <= state_->head.seq; }

void AuditLog::tick() {
  if (!state_->sink.is_writable()) return;
  const policy::Instant now = state_->clock.now();
  state_->write_due(now);
  if (state_->checkpoint_due && now >= *state_->checkpoint_due) state_->append_checkpoint();
}

std::optional<policy::Instant> AuditLog::next_deadline() const {
  if (!state_->sink.is_writable()) return std::nullopt;
  std::optional<policy::Instant> next = state_->checkpoint_due;
  for (const auto& other : {state_->refusals.next_deadline(), state_->strangers.next_deadline()}) {
    if (other) next = std::min(next.value_or(*other), *other);
  }
  return next;
}

void AuditLog::close() {
  state_->write_due(policy::Instant::max());
  if (state_->since_checkpoint > 0) state_->append_checkpoint();
  state_->is_closed = true;
}

const AuditHead& AuditLog::head() const { return state_->head; }

}  // namespace turnstile::gateway
