// entry_check.h: what is looked at between the key and the verdict, and the answer to a request
// that is invalid.
//
// Invalid requests are not arrived: they are counted by code and leave no line in the audit log.
//
// Thread: I/O.
// Tests:  tests/gateway/completion_test.cpp, plain_routes_test.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/api/generation_request.h"
#include "gateway/http/http_reader.h"
#include "policy/instant.h"
#include "policy/request_id.h"

namespace turnstile::gateway {

class Session;
struct SpineContext;

// Why the body is not even read: the server drains or is not ready, the declared length is over the
// limit, the media type is not JSON.
std::optional<ApiError> check_before_body(const RequestHead& head, const SpineContext& context);

// What a body is charged with before it is read.
std::size_t declared_body_bytes(const RequestHead& head, const SpineContext& context);
ApiError no_room_for_body();

// The class that the client asks for: the header beats service_tier.
struct ClassAsk {
  std::optional<std::string_view> name;
  std::string_view param;  // where it was said
};
ClassAsk asked_class(const RequestHead& head, const GenerationRequest& request);

// X-Turnstile-Deadline-Ms: how long after its arrival the client still wants the first token.
// Absent when the header is; an error when it is no whole number of milliseconds up to a day.
tl::expected<std::optional<policy::Duration>, ApiError> asked_deadline(const RequestHead& head);

// X-Admission-Ticket: the ticket that the client shows; absent when it shows none.
std::optional<policy::RequestId> shown_ticket(const RequestHead& head, SpineContext& context);

// Answers invalid requests.
class InvalidRequest {
 public:
  InvalidRequest(Session& session, SpineContext& context)
      : session_(session), context_(context) {}

  void answer(const ApiError& error) const;
  // Absent: the client is gone and nobody is there to answer.
  void answer(const std::optional<ApiError>& error) const {
    if (error) answer(*error);
  }

 private:
  Session& session_;
  SpineContext& context_;
};

}  // namespace turnstile::gateway
