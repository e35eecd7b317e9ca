// api_error.h: every way to say no over HTTP, in OpenAI's shape.
//
//   reason (ApiCode or policy::Refusal) --> ApiError --> status, body, headers, audit code
//
// This is the only place that knows which status, type and retry advice belong to a code; the
// tables are switches without default, so a new code does not compile until it has an answer.
//
// A message is one sentence: the field or limit at fault and the remedy. It never repeats text of
// the client.
//
// Thread: any; pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/verdict.h"

namespace turnstile::gateway {

enum class ApiCode : std::uint8_t {
  InvalidJson,
  MissingRequiredParameter,
  InvalidValue,
  UnsupportedParameter,
  ContextLengthExceeded,
  InputTooLong,
  ExceedsBudgetCapacity,
  BadRequest,
  InvalidApiKey,
  KeyDisabled,
  KeyExpired,
  NotLocal,
  ModelNotAllowed,
  OutsideSchedule,
  ModelNotFound,
  NotFound,
  MethodNotAllowed,
  RequestTimeout,
  BodyTooLarge,
  UriTooLong,
  UnsupportedMediaType,
  ExpectationFailed,
  HeadersTooLarge,
  HttpVersion,
  RateRequests,
  BudgetTokens,
  QueueFull,
  Displaced,
  WouldMissDeadline,
  QueueDeadline,
  PolicyChanged,
  AuthThrottled,
  ClientGone,
  ClientSlow,
  InternalError,
  Draining,
  EngineNotReady,
  AuditUnavailable,
  Overloaded,
  PrefillTimeout,
  DecodeStall,
  DecodeTimeout,
  EngineFault,
};

std::string_view to_string(ApiCode code);      // "invalid_json", the `code` of the body
int http_status(ApiCode code);                 // 499 for ClientGone and ClientSlow, audit only
std::string_view error_type(ApiCode code);     // "invalid_request_error", ...
ApiCode api_code(policy::RefusalCode code);

// What policy adds to a refusal it decided.
struct RefusalDetails {
  std::string meter;
  std::string scope;
  std::int64_t limit = 0;
  std::string policy_revision;
  std::string_view ticket_use;  // what became of the ticket it showed; empty: it showed none
};

struct ApiError {
  ApiCode code = ApiCode::InternalError;
  std::string message;
  std::optional<std::string> param;
  std::optional<policy::Duration> retry_after;  // absent: waiting cannot help or is not known
  std::optional<RefusalDetails> refusal;
  std::string ticket;  // to be shown at the retry; empty: there is nothing to keep

  int status() const { return http_status(code); }
};

ApiError make_error(ApiCode code, std::string message,
                    std::optional<std::string> param = std::nullopt);

// `param_names` as the client spelled them: policy names fields generically ("prompt",
// "max_tokens", "class").
struct ParamNames {
  std::string_view prompt = "prompt";
  std::string_view max_tokens = "max_tokens";
  std::string_view service_class = "X-Turnstile-Class";
};
ApiError from_refusal(const policy::Refusal& refusal, const ParamNames& param_names,
                      std::string_view policy_revision);

// {"error":{"message","type","param","code",...}}; a refusal adds meter, scope, limit,
// retry_after_ms (when waiting helps), policy_rev and, when a ticket was shown, what became of it
// (ticket); every error carries request_id.
void append_error_body(std::string& out, const ApiError& error, std::string_view request_id);
std::string error_body(const ApiError& error, std::string_view request_id);

// The header lines: x-admission-code, Retry-After (whole seconds, rounded up), retry-after-ms,
// x-should-retry and x-admission-ticket for 429, Retry-After for 503, WWW-Authenticate for 401;
// nothing for the rest.
//
// x-should-retry is false when waiting cannot help or takes over 60 s: older official clients do
// not sleep that long and would come back at once.
void append_error_lines(std::string& out, const ApiError& error);

}  // namespace turnstile::gateway
