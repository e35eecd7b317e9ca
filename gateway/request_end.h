// request_end.h: how an arrived request ended, as one value; record, audit and metrics follow from
// it.
//
// Thread: I/O.
// Tests:  tests/gateway/completion_test.cpp (each end: status, body, audit lines, counters).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/api/api_error.h"
#include "gateway/api/generation_response.h"
#include "gateway/mailbox.h"
#include "gateway/records/records.h"
#include "policy/admission.h"
#include "policy/verdict.h"

namespace turnstile::gateway {

class Session;
struct SpineContext;

class RequestEnd {
 public:
  static RequestEnd completed() { return RequestEnd(RequestOutcome::Completed); }
  static RequestEnd client_gone() { return {RequestOutcome::ClientGone, ApiCode::ClientGone}; }
  static RequestEnd client_slow() { return {RequestOutcome::ClientGone, ApiCode::ClientSlow}; }
  static RequestEnd timed_out(ApiCode code) { return {RequestOutcome::TimedOut, code}; }
  static RequestEnd draining() { return {RequestOutcome::Fault, ApiCode::Draining}; }
  static RequestEnd engine_fault() { return {RequestOutcome::Fault, ApiCode::EngineFault}; }
  static RequestEnd overloaded() { return {RequestOutcome::Fault, ApiCode::Overloaded}; }
  static RequestEnd internal_error() { return {RequestOutcome::Fault, ApiCode::InternalError}; }
  static RequestEnd key_revoked() { return {RequestOutcome::Fault, ApiCode::KeyDisabled}; }
  static RequestEnd refused(policy::RefusalCode code) {
    return {RequestOutcome::Refused, api_code(code)};
  }

  RequestOutcome outcome() const { return outcome_; }
  bool is_completed() const { return outcome_ == RequestOutcome::Completed; }
  bool client_is_here() const { return outcome_ != RequestOutcome::ClientGone; }
  std::string_view code() const;  // empty when it was completed
  int status() const;             // of an answer that has no head yet; 200 when completed
  policy::EndKind end_kind() const;

  // What the client is told; of a refusal, what the record keeps of it.
  // REQUIRES: not completed, client_is_here().
  ApiError error(const ParamNames& names, const RequestRecord& record) const;
  // The same before the request has arrived: no refusal yet. Absent: nobody is there to be told.
  std::optional<ApiError> answer_before_arrival() const;

 private:
  RequestEnd(RequestOutcome outcome, ApiCode code = ApiCode::InternalError)
      : outcome_(outcome), code_(code) {}

  RequestOutcome outcome_;
  ApiCode code_;
};

// What an event means to a request that waits for something else, be it a permit or its text.
// Absent: it waits on.
std::optional<RequestEnd> end_of_waiting(Session& session, EventKind event);

// Closes the record of an arrived request: audit, requests.jsonl and metrics, once. `has_answered`:
// a head with 200 is out already.
void finish_record(RequestRecord& record, const RequestEnd& end, bool has_answered,
                   SpineContext& context);

// Answers a refusal that came with the verdict. A 400 that is no refusal counts as invalid and was
// never arrived.
void refuse(Session& session, SpineContext& context, RequestRecord& record,
            policy::Refusal refusal, const ParamNames& names);

Explained explain(const RequestRecord& record);

}  // namespace turnstile::gateway
