#include "gateway/entry_check.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>

#include "gateway/session.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {
namespace {

constexpr policy::Duration kRestartWait = std::chrono::seconds(5);
constexpr policy::Duration kBodyRoomWait = std::chrono::seconds(1);
constexpr std::string_view kClassHeader = "X-Turnstile-Class";
constexpr std::string_view kDeadlineHeader = "X-Turnstile-Deadline-Ms";
constexpr std::int64_t kLongestDeadlineMs = std::int64_t{24} * 3600 * 1000;

ApiError come_back(ApiCode code, std::string_view message, policy::Duration wait) {
  ApiError error = make_error(code, std::string(message));
  error.retry_after = wait;
  return error;
}

bool is_json(std::string_view content_type) {
  if (content_type == "application/json") return true;
  const std::string_view media_type = content_type.substr(0, content_type.find(';'));
  std::string lower;
  for (const char c : media_type) {
    if (c != ' ' && c != '\t') lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return lower == "application/json";
}

}  // namespace

std::optional<ApiError> check_before_body(const RequestHead& head, const SpineContext& context) {
  if (!context.drain.accepts_requests()) {
    return come_back(ApiCode::Draining, "The server is shutting down.", kRestartWait);
  }
  if (context.engine.fault()) {
    return come_back(ApiCode::EngineNotReady, "The engine is not ready.", kRestartWait);
  }
  if (!context.records.is_writable()) {
    return come_back(ApiCode::AuditUnavailable,
                     "The audit log cannot be written, and nothing is generated without it.",
                     kRestartWait);
  }
  if (head.content_length.value_or(0) > context.limits.max_body_bytes) {
    return make_error(ApiCode::BodyTooLarge,
                      "The body is over the limit of " +
                          std::to_string(context.limits.max_body_bytes) + " bytes.");
  }
  if (!head.content_type.empty() && !is_json(head.content_type)) {
    return make_error(ApiCode::UnsupportedMediaType, "The body must be application/json.");
  }
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    return make_error(ApiCode::UnsupportedMediaType,
                      "The body must not be compressed (Content-Encoding).");
  }
  return std::nullopt;
}

std::size_t declared_body_bytes(const RequestHead& head, const SpineContext& context) {
  if (head.is_chunked) return context.limits.max_body_bytes;
  return static_cast<std::size_t>(head.content_length.value_or(0));
}

ApiError no_room_for_body() {
  return come_back(ApiCode::Overloaded, "Too many bodies of requests are being read at once.",
                   kBodyRoomWait);
}

ClassAsk asked_class(const RequestHead& head, const GenerationRequest& request) {
  if (!head.service_class.empty()) return {head.service_class, kClassHeader};
  ClassAsk ask{std::nullopt, "service_tier"};
  if (!request.service_tier) return ask;
  if (*request.service_tier == "priority") ask.name = "demo";
  if (*request.service_tier == "default") ask.name = "standard";
  if (*request.service_tier == "flex") ask.name = "batch";
  return ask;
}

tl::expected<std::optional<policy::Duration>, ApiError> asked_deadline(const RequestHead& head) {
  if (head.deadline_ms.empty()) return std::nullopt;
  std::int64_t ms = 0;
  const char* const end = head.deadline_ms.data() + head.deadline_ms.size();
  const auto [rest, error] = std::from_chars(head.deadline_ms.data(), end, ms);
  if (error != std::errc{} || rest != end || ms < 1 || ms > kLongestDeadlineMs) {
    return tl::unexpected(make_error(
        ApiCode::InvalidValue,
        "The header must be a whole number of milliseconds from 1 to " +
            std::to_string(kLongestDeadlineMs) + ".",
        std::string(kDeadlineHeader)));
  }
  return std::chrono::milliseconds(ms);
}

std::optional<policy::RequestId> shown_ticket(const RequestHead& head, SpineContext& context) {
  if (head.ticket.empty()) return std::nullopt;
  return context.tickets.read(head.ticket);
}

void InvalidRequest::answer(const ApiError& error) const {
  context_.metrics.on_invalid(to_string(error.code));
  session_.respond_error(error);
}

}  // namespace turnstile::gateway
