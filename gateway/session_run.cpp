// What waits in a session (session.h): the handshake, a head, a body, the end of an answer; and the
// choice of who answers.
#include <algorithm>
#include <exception>
#include <utility>

#include "gateway/completion.h"
#include "gateway/log.h"
#include "gateway/plain_routes.h"
#include "gateway/session.h"

namespace turnstile::gateway {
namespace {

ApiError client_was_slow() {
  return make_error(ApiCode::RequestTimeout, "The request did not arrive in time.");
}

}  // namespace

Awaitable<void> Session::run() {
  connection_->start(*this);
  const bool is_open = co_await shake_hands();
  if (!is_open) co_return;
  for (;;) {
    const bool has_request = co_await read_head();
    if (!has_request) co_return;
    ++context_.open_requests;
    co_await answer_request();
    const bool written = co_await flush_all();
    --context_.open_requests;
    if (!written) co_return;
    if (!keep_alive_) {
      co_await linger();
      co_return;
    }
    reader_.next_request();
    if (unread().empty()) continue;
    const bool goes_on = co_await let_others_pass();
    if (!goes_on) co_return;
  }
}

// A client that sends requests ahead gets one a turn; all of them at once would keep the thread
// from everybody else. False when the server ends.
Awaitable<bool> Session::let_others_pass() {
  deadline_.set(context_.clock.now());
  for (;;) {
    const EventKind event = co_await mailbox_.next();
    if (event == EventKind::Shutdown) co_return false;
    if (event == EventKind::Deadline) co_return true;
  }
}

// True when bytes of requests can come.
Awaitable<bool> Session::shake_hands() {
  if (connection_->is_open()) co_return true;
  ++context_.handshakes;
  handshake_began_ = context_.clock.now();
  deadline_.set(*handshake_began_ + context_.limits.handshake_timeout);
  bool in_time = true;
  // A request may come in the same bytes as the handshake's end, and fill the buffer.
  read_into_buffer();
  while (!gone_ && !connection_->is_open() && in_time) {
    const EventKind event = co_await mailbox_.next();
    in_time = event != EventKind::Deadline && event != EventKind::Shutdown;
    read_into_buffer();
  }
  --context_.handshakes;
  handshake_began_.reset();
  context_.metrics.on_tls_handshake(connection_->is_open() && !gone_);
  co_return connection_->is_open() && !gone_;
}

// True when a request has begun: reader_.head() is complete. False ends the connection.
Awaitable<bool> Session::read_head() {
  const LimitsConfig& limits = context_.limits;
  has_answered_ = false;
  bool has_begun = false;
  deadline_.set(context_.clock.now() +
                (requests_ == 0 ? limits.header_timeout : limits.keep_alive_timeout));
  for (;;) {
    HttpReader::Step step = reader_.read_head(unread());
    consume(step.consumed);
    if (step.done || step.refused) {
      begin_request();
      if (step.done) co_return true;
      body_is_read_ = false;
      refuse_head(*step.refused);
      const bool written = co_await flush_all();
      if (written) co_await linger();
      co_return false;
    }
    if (read_into_buffer()) continue;
    if (gone_) co_return false;
    if (!has_begun && !unread().empty()) {
      has_begun = true;
      deadline_.set(context_.clock.now() + limits.header_timeout);
    }
    const EventKind event = co_await mailbox_.next();
    if (event == EventKind::Shutdown) co_return false;
    if (event == EventKind::Deadline) {
      if (has_begun) {
        begin_request();
        refuse_head(client_was_slow());
        co_await flush_all();
      }
      co_return false;
    }
  }
}

// Who asks is not known yet.
void Session::refuse_head(const ApiError& why) {
  keep_alive_ = false;
  context_.metrics.on_invalid(to_string(why.code));
  respond_error(why);
}

void Session::begin_request() {
  const std::uint32_t most = context_.limits.max_requests_per_connection;
  ++requests_;
  keep_alive_ = reader_.head().keep_alive && (most == 0 || requests_ < most) &&
                context_.drain.accepts_requests();
  body_is_read_ = !reader_.head().has_body();
  has_answered_ = false;
  request_id_ = context_.ids.next(context_.clock.wall());
  standing_lines_.end();
  deadline_.clear();
  for (const EventKind kind :
       {EventKind::Dispatched, EventKind::Refused, EventKind::Progress, EventKind::KeyRevoked}) {
    mailbox_.discard(kind);
  }
}

Awaitable<void> Session::answer_request() {
  bool failed = false;
  try {
    const RouteMatch match = find_route(listener_, head().target);
    if (match.generates() && match.allows(head().method)) {
      co_await complete(*this, context_, match);
    } else {
      co_await answer_plain(*this, context_, match);
    }
  } catch (const std::exception& error) {
    log_error(error.what());
    failed = true;
  }
  if (failed) {
    keep_alive_ = false;
    if (!has_answered_) {
      respond_error(make_error(ApiCode::InternalError, "The server failed at this request."));
    }
  }
  // What is left of the body would be taken for the next request.
  if (!body_is_read_) keep_alive_ = false;
}

policy::Duration Session::time_for_body() const {
  const LimitsConfig& limits = context_.limits;
  const std::uint64_t most = head().content_length.value_or(limits.max_body_bytes);
  return limits.body_timeout +
         std::chrono::milliseconds(most * 1000 / limits.body_bytes_per_second);
}

Awaitable<tl::expected<void, std::optional<ApiError>>> Session::read_body() {
  using Failed = tl::unexpected<std::optional<ApiError>>;
  if (body_is_read_) co_return tl::expected<void, std::optional<ApiError>>();
  if (head().expects_continue && unread().empty()) {
    send("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
  for (;;) {
    HttpReader::Step step = reader_.read_body(unread());
    consume(step.consumed);
    if (step.refused) co_return Failed(std::move(step.refused));
    if (step.done) break;
    if (read_into_buffer()) continue;
    if (gone_) co_return Failed(std::nullopt);
    if (!deadline_.is_set()) deadline_.set(context_.clock.now() + time_for_body());
    const EventKind event = co_await mailbox_.next();
    switch (event) {
      case EventKind::Deadline: co_return Failed(client_was_slow());
      case EventKind::Shutdown:
        co_return Failed(make_error(ApiCode::Draining, "The server is shutting down."));
      case EventKind::Writable: flush(); break;
      default: break;
    }
  }
  deadline_.clear();
  body_is_read_ = true;
  co_return tl::expected<void, std::optional<ApiError>>();
}

// True when the client has taken everything.
Awaitable<bool> Session::flush_all() {
  flush();
  if (unsent_bytes() == 0) {
    deadline_.clear();
    co_return !gone_;
  }
  // The answer is complete, so its size is no sign of a slow reader any more: only a stall is, or a
  // reader that takes bytes more slowly than a sender may send them. Its permit is back already, so
  // who reads one byte now and then would pile up answers for nothing.
  const LimitsConfig& limits = context_.limits;
  const std::chrono::milliseconds allowance(unsent_bytes() * 1000 / limits.body_bytes_per_second);
  const policy::Instant latest =
      context_.clock.now() + limits.write_stall_timeout + allowance;
  while (!gone_ && unsent_bytes() > 0) {
    deadline_.set(std::min(latest, last_progress_ + policy::Duration(
                                                        context_.limits.write_stall_timeout)));
    const EventKind event = co_await mailbox_.next();
    switch (event) {
      case EventKind::Writable: flush(); break;
      case EventKind::Readable: receive(); break;
      case EventKind::Deadline:
      case EventKind::Shutdown: gone_ = true; break;
      default: break;
    }
  }
  deadline_.clear();
  co_return !gone_;
}

// Closes so that the client sees the answer: bytes that arrive after a close would make the kernel
// send a reset, which can overtake the answer.
Awaitable<void> Session::linger() {
  connection_->shut_down_write();
  if (body_is_read_ && unread().empty()) co_return;
  deadline_.set(context_.clock.now() + context_.limits.refused_body_timeout);
  std::size_t dropped = unread().size();
  consume(dropped);
  while (dropped < context_.limits.refused_body_bytes) {
    if (read_into_buffer()) {
      dropped += unread().size();
      consume(unread().size());
      continue;
    }
    if (gone_) break;
    const EventKind event = co_await mailbox_.next();
    if (event == EventKind::Deadline || event == EventKind::Shutdown) break;
  }
  deadline_.clear();
}

}  // namespace turnstile::gateway
