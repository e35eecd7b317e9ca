#include "gateway/api/api_error.h"

#include <cassert>

#include "gateway/api/json_text.h"

namespace turnstile::gateway {
namespace {

constexpr policy::Duration kLongestRetrySleep = std::chrono::seconds(60);

std::int64_t rounded_up(policy::Duration wait, policy::Duration unit) {
  return (wait.count() + unit.count() - 1) / unit.count();
}

std::int64_t retry_after_ms(policy::Duration wait) {
  return rounded_up(wait, std::chrono::milliseconds(1));
}

}  // namespace

std::string_view to_string(ApiCode code) {
  switch (code) {
    case ApiCode::InvalidJson: return "invalid_json";
    case ApiCode::MissingRequiredParameter: return "missing_required_parameter";
    case ApiCode::InvalidValue: return "invalid_value";
    case ApiCode::UnsupportedParameter: return "unsupported_parameter";
    case ApiCode::ContextLengthExceeded: return "context_length_exceeded";
    case ApiCode::InputTooLong: return "input_too_long";
    case ApiCode::ExceedsBudgetCapacity: return "exceeds_budget_capacity";
    case ApiCode::BadRequest: return "bad_request";
    case ApiCode::InvalidApiKey: return "invalid_api_key";
    case ApiCode::KeyDisabled: return "key_disabled";
    case ApiCode::KeyExpired: return "key_expired";
    case ApiCode::NotLocal: return "not_local";
    case ApiCode::ModelNotAllowed: return "model_not_allowed";
    case ApiCode::OutsideSchedule: return "outside_schedule";
    case ApiCode::ModelNotFound: return "model_not_found";
    case ApiCode::NotFound: return "not_found";
    case ApiCode::MethodNotAllowed: return "method_not_allowed";
    case ApiCode::RequestTimeout: return "request_timeout";
    case ApiCode::BodyTooLarge: return "body_too_large";
    case ApiCode::UriTooLong: return "uri_too_long";
    case ApiCode::UnsupportedMediaType: return "unsupported_media_type";
    case ApiCode::ExpectationFailed: return "expectation_failed";
    case ApiCode::HeadersTooLarge: return "headers_too_large";
    case ApiCode::HttpVersion: return "http_version";
    case ApiCode::RateRequests: return "rate_requests";
    case ApiCode::BudgetTokens: return "budget_tokens";
    case ApiCode::QueueFull: return "queue_full";
    case ApiCode::Displaced: return "displaced";
    case ApiCode::WouldMissDeadline: return "would_miss_deadline";
    case ApiCode::QueueDeadline: return "queue_deadline";
    case ApiCode::PolicyChanged: return "policy_changed";
    case ApiCode::AuthThrottled: return "auth_throttled";
    case ApiCode::ClientGone: return "client_gone";
    case ApiCode::ClientSlow: return "client_slow";
    case ApiCode::InternalError: return "internal_error";
    case ApiCode::Draining: return "draining";
    case ApiCode::EngineNotReady: return "engine_not_ready";
    case ApiCode::AuditUnavailable: return "audit_unavailable";
    case ApiCode::Overloaded: return "overloaded";
    case ApiCode::PrefillTimeout: return "prefill_timeout";
    case ApiCode::DecodeStall: return "decode_stall";
    case ApiCode::DecodeTimeout: return "decode_timeout";
    case ApiCode::EngineFault: return "engine_fault";
  }
  assert(false && "the switch covers every code");
  return {};
}

int http_status(ApiCode code) {
  switch (code) {
    case ApiCode::InvalidJson:
    case ApiCode::MissingRequiredParameter:
    case ApiCode::InvalidValue:
    case ApiCode::UnsupportedParameter:
    case ApiCode::ContextLengthExceeded:
    case ApiCode::InputTooLong:
    case ApiCode::ExceedsBudgetCapacity:
    case ApiCode::BadRequest: return 400;
    case ApiCode::InvalidApiKey: return 401;
    case ApiCode::KeyDisabled:
    case ApiCode::KeyExpired:
    case ApiCode::NotLocal:
    case ApiCode::ModelNotAllowed:
    case ApiCode::OutsideSchedule: return 403;
    case ApiCode::ModelNotFound:
    case ApiCode::NotFound: return 404;
    case ApiCode::MethodNotAllowed: return 405;
    case ApiCode::RequestTimeout: return 408;
    case ApiCode::BodyTooLarge: return 413;
    case ApiCode::UriTooLong: return 414;
    case ApiCode::UnsupportedMediaType: return 415;
    case ApiCode::ExpectationFailed: return 417;
    case ApiCode::RateRequests:
    case ApiCode::BudgetTokens:
    case ApiCode::QueueFull:
    case ApiCode::Displaced:
    case ApiCode::WouldMissDeadline:
    case ApiCode::QueueDeadline:
    case ApiCode::PolicyChanged:
    case ApiCode::AuthThrottled: return 429;
    case ApiCode::HeadersTooLarge: return 431;
    case ApiCode::ClientGone:
    case ApiCode::ClientSlow: return 499;
    case ApiCode::InternalError:
    case ApiCode::EngineFault: return 500;
    case ApiCode::Draining:
    case ApiCode::EngineNotReady:
    case ApiCode::AuditUnavailable:
    case ApiCode::Overloaded: return 503;
    case ApiCode::PrefillTimeout:
    case ApiCode::DecodeStall:
    case ApiCode::DecodeTimeout: return 504;
    case ApiCode::HttpVersion: return 505;
  }
  assert(false && "the switch covers every code");
  return 500;
}

std::string_view error_type(ApiCode code) {
  switch (http_status(code)) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 500:
    case 503: return "server_error";
    case 504: return "timeout_error";
    case 404: return "not_found_error";
    default: return "invalid_request_error";
  }
}

ApiCode api_code(policy::RefusalCode code) {
  switch (code) {
    case policy::RefusalCode::InvalidValue: return ApiCode::InvalidValue;
    case policy::RefusalCode::ContextLengthExceeded: return ApiCode::ContextLengthExceeded;
    case policy::RefusalCode::InputTooLong: return ApiCode::InputTooLong;
    case policy::RefusalCode::ExceedsBudgetCapacity: return ApiCode::ExceedsBudgetCapacity;
    case policy::RefusalCode::KeyDisabled: return ApiCode::KeyDisabled;
    case policy::RefusalCode::ModelNotAllowed: return ApiCode::ModelNotAllowed;
    case policy::RefusalCode::ModelNotFound: return ApiCode::ModelNotFound;
    case policy::RefusalCode::RateRequests: return ApiCode::RateRequests;
    case policy::RefusalCode::BudgetTokens: return ApiCode::BudgetTokens;
    case policy::RefusalCode::QueueFull: return ApiCode::QueueFull;
    case policy::RefusalCode::WouldMissDeadline: return ApiCode::WouldMissDeadline;
    case policy::RefusalCode::Displaced: return ApiCode::Displaced;
    case policy::RefusalCode::QueueDeadline: return ApiCode::QueueDeadline;
  }
  assert(false && "the switch covers every code of policy");
  return ApiCode::InternalError;
}

ApiError make_error(ApiCode code, std::string message, std::optional<std::string> param) {
  ApiError error;
  error.code = code;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError from_refusal(const policy::Refusal& refusal, const ParamNames& param_names,
                      std::string_view policy_revision) {
  ApiError error;
  error.code = api_code(refusal.code);
  error.message = policy::sentence(refusal);
  error.retry_after = refusal.retry_after;
  if (refusal.param == "prompt") {
    error.param = param_names.prompt;
  } else if (refusal.param == "max_tokens") {
    error.param = param_names.max_tokens;
  } else if (refusal.param == "class") {
    error.param = param_names.service_class;
  } else if (!refusal.param.empty()) {
    error.param = refusal.param;
  }
  if (policy::counts_as_refusal(refusal.code)) {
    error.refusal = RefusalDetails{refusal.meter, refusal.scope, refusal.limit,
                                   std::string(policy_revision), to_string(refusal.shown)};
  }
  return error;
}

void append_error_body(std::string& out, const ApiError& error, std::string_view request_id) {
  out += R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":")";
  out += error_type(error.code);
  out += R"(","param":)";
  if (error.param) {
    append_json_string(out, *error.param);
  } else {
    out += "null";
  }
  out += R"(,"code":")";
  out += to_string(error.code);
  out += '"';
  if (error.refusal) {
    if (!error.refusal->meter.empty()) {
      out += R"(,"meter":)";
      append_json_string(out, error.refusal->meter);
      out += R"(,"limit":)";
      append_json_int(out, error.refusal->limit);
    }
    if (!error.refusal->scope.empty()) {
      out += R"(,"scope":)";
      append_json_string(out, error.refusal->scope);
    }
    out += R"(,"policy_rev":)";
    append_json_string(out, error.refusal->policy_revision);
    if (!error.refusal->ticket_use.empty()) {
      out += R"(,"ticket":)";
      append_json_string(out, error.refusal->ticket_use);
    }
  }
  if (error.retry_after) {
    out += R"(,"retry_after_ms":)";
    append_json_int(out, retry_after_ms(*error.retry_after));
  }
  out += R"(,"request_id":)";
  append_json_string(out, request_id);
  out += "}}";
}

std::string error_body(const ApiError& error, std::string_view request_id) {
  std::string out;
  out.reserve(512);
  append_error_body(out, error, request_id);
  return out;
}

void append_error_lines(std::string& out, const ApiError& error) {
  const int status = error.status();
  if (status == 401) out += "www-authenticate: Bearer\r\n";
  if (status != 429 && status != 503) return;
  if (error.retry_after) {
    out += "Retry-After: ";
    append_json_int(out, rounded_up(*error.retry_after, std::chrono::seconds(1)));
    out += "\r\nretry-after-ms: ";
    append_json_int(out, retry_after_ms(*error.retry_after));
    out += "\r\n";
  }
  if (status != 429) return;
  const bool worth_a_retry = error.retry_after && *error.retry_after <= kLongestRetrySleep;
  out += worth_a_retry ? "x-should-retry: true\r\n" : "x-should-retry: false\r\n";
  out += "x-admission-code: ";
  out += to_string(error.code);
  out += "\r\n";
  if (error.ticket.empty()) return;
  out += "x-admission-ticket: ";
  out += error.ticket;
  out += "\r\n";
}

}  // namespace turnstile::gateway
