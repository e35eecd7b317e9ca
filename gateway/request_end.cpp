#include "gateway/request_end.h"

#include <cassert>
#include <chrono>
#include <string>
#include <utility>

#include "gateway/session.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {
namespace {

// A server that ends now may be back soon: systemd restarts it within seconds.
constexpr policy::Duration kUnavailableWait = std::chrono::seconds(5);

double ms_or_zero(std::optional<policy::Duration> duration) {
  return duration ? to_ms(*duration) : 0.0;
}

std::string_view message_of(ApiCode code) {
  switch (code) {
    case ApiCode::PrefillTimeout: return "The prompt was not computed in time.";
    case ApiCode::DecodeStall: return "The engine made no progress with this answer for too long.";
    case ApiCode::DecodeTimeout: return "The answer was not complete in time.";
    case ApiCode::Draining: return "The server is shutting down.";
    case ApiCode::EngineFault: return "The engine failed; the answer is incomplete.";
    case ApiCode::KeyDisabled: return "This API key was revoked.";
    case ApiCode::Overloaded: return "The server has no room for this request at present.";
    default: return "The server failed at this request.";
  }
}

}  // namespace

std::string_view RequestEnd::code() const {
  return is_completed() ? std::string_view() : to_string(code_);
}

int RequestEnd::status() const { return is_completed() ? 200 : http_status(code_); }

policy::EndKind RequestEnd::end_kind() const {
  // The key's owner pays for what was computed, as for any request that its side ended.
  if (code_ == ApiCode::KeyDisabled) return policy::EndKind::Cancelled;
  switch (outcome_) {
    case RequestOutcome::Completed: return policy::EndKind::Completed;
    case RequestOutcome::ClientGone: return policy::EndKind::Cancelled;
    case RequestOutcome::TimedOut: return policy::EndKind::TimedOut;
    case RequestOutcome::Refused:
    case RequestOutcome::Fault: return policy::EndKind::Fault;
  }
  assert(false && "the switch covers every outcome");
  return policy::EndKind::Fault;
}

ApiError RequestEnd::error(const ParamNames& names, const RequestRecord& record) const {
  assert(!is_completed() && client_is_here() && "there is an error and somebody to tell it");
  if (outcome_ == RequestOutcome::Refused) {
    ApiError error = from_refusal(*record.refusal, names, record.policy_revision);
    error.ticket = record.ticket;
    return error;
  }
  return *answer_before_arrival();
}

std::optional<ApiError> RequestEnd::answer_before_arrival() const {
  assert(!is_completed() && outcome_ != RequestOutcome::Refused && "an end of our own making");
  if (!client_is_here()) return std::nullopt;
  ApiError error = make_error(code_, std::string(message_of(code_)));
  if (error.status() == 503) error.retry_after = kUnavailableWait;
  return error;
}

std::optional<RequestEnd> end_of_waiting(Session& session, EventKind event) {
  switch (event) {
    case EventKind::Readable:
      if (!session.receive()) return RequestEnd::client_gone();
      break;
    case EventKind::KeyRevoked: return RequestEnd::key_revoked();
    case EventKind::Shutdown: return RequestEnd::draining();
    case EventKind::EngineFault: return RequestEnd::engine_fault();
    case EventKind::Writable:
    case EventKind::Deadline:
    case EventKind::Dispatched:
    case EventKind::Refused:
    case EventKind::Progress:
    case EventKind::TextDone: break;
  }
  return std::nullopt;
}

void finish_record(RequestRecord& record, const RequestEnd& end, bool has_answered,
                   SpineContext& context) {
  assert(record.phase != RequestPhase::New && record.phase != RequestPhase::Ended &&
         "an arrived request ends once");
  record.ended = context.clock.now();
  record.outcome = end.outcome();
  record.code = end.code();
  record.status = has_answered ? 200 : end.status();
  if (end.outcome() == RequestOutcome::Refused) {
    const auto& ticket = record.refusal->ticket;
    if (ticket) record.ticket = context.tickets.text(*ticket, context.random);
    context.metrics.on_verdict(record, Metrics::Verdict::Refused, end.code());
    context.audit.refused(record);
  } else {
    context.audit.ended(record);
  }
  context.metrics.on_finished(record);
}

void refuse(Session& session, SpineContext& context, RequestRecord& record,
            policy::Refusal refusal, const ParamNames& names) {
  const RequestEnd end = RequestEnd::refused(refusal.code);
  record.policy_revision = context.admission.policy().revision;
  const bool is_arrived = policy::counts_as_refusal(refusal.code) &&
                          refusal.code != policy::RefusalCode::KeyDisabled;
  record.refusal = std::move(refusal);
  if (is_arrived) {
    context.metrics.on_arrived(record);
    finish_record(record, end, false, context);
  } else {
    context.metrics.on_invalid(end.code());
  }
  session.respond_error(end.error(names, record));
}

Explained explain(const RequestRecord& record) {
  Explained explained;
  explained.service_class = record.service_class;
  explained.policy = record.policy_revision;
  explained.queue_ms = ms_or_zero(record.queue_time());
  explained.prefill_ms = ms_or_zero(record.prefill_time());
  explained.decode_ms = ms_or_zero(record.decode_time());
  explained.ttft_ms = ms_or_zero(record.time_to_first_token());
  explained.cached_tokens = record.cached_tokens;
  explained.pauses = record.pauses;
  explained.end_code = record.end_code;
  if (record.queued) explained.ticket = policy::to_string(record.queued->ticket);
  return explained;
}

}  // namespace turnstile::gateway
