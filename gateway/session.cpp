#include "gateway/session.h"

#include <cassert>
#include <cstring>
#include <exception>
#include <utility>

#include "gateway/completion.h"
#include "gateway/log.h"
#include "gateway/plain_routes.h"

namespace turnstile::gateway {
namespace {

constexpr std::string_view kJsonType = "application/json";

ApiError client_was_slow() {
  return make_error(ApiCode::RequestTimeout, "The request did not arrive in time.");
}

}  // namespace

Session::Session(SpineContext& context, std::unique_ptr<Connection> connection,
                 ListenerKind listener)
    : context_(context),
      connection_(std::move(connection)),
      listener_(listener),
      mailbox_(context.executor),
      deadline_(context.deadlines, mailbox_),
      reader_(context.limits),
      input_(std::make_unique_for_overwrite<char[]>(context.limits.read_buffer_bytes)) {
  ++context_.open_connections;
  if (listener_ == ListenerKind::Public) context_.metrics.on_connection_opened();
}

Session::~Session() {
  connection_->close();
  --context_.open_connections;
  if (listener_ == ListenerKind::Public) context_.metrics.on_connection_closed();
}

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
  while (receive() && !connection_->is_open() && in_time) {
    const EventKind event = co_await mailbox_.next();
    in_time = event != EventKind::Deadline && event != EventKind::Shutdown;
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
      keep_alive_ = false;
      body_is_read_ = false;
      context_.metrics.on_invalid(to_string(step.refused->code));
      respond_error(*step.refused);
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
        keep_alive_ = false;
        respond_error(client_was_slow());
        co_await flush_all();
      }
      co_return false;
    }
  }
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

// Reads once or until the socket is empty. A full buffer while nobody parses it means that the
// client sends on and on instead of reading its answer: it is treated as gone.
bool Session::receive() {
  while (read_into_buffer()) {
  }
  if (input_end_ - input_begin_ == context_.limits.read_buffer_bytes) gone_ = true;
  return !gone_;
}

// True when there are new bytes in the buffer.
bool Session::read_into_buffer() {
  const std::size_t capacity = context_.limits.read_buffer_bytes;
  if (input_begin_ > 0) {
    std::memmove(input_.get(), input_.get() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  if (gone_ || input_end_ == capacity) return false;
  const Transfer got = connection_->read_some({input_.get() + input_end_, capacity - input_end_});
  if (got.closed) gone_ = true;
  input_end_ += got.bytes;
  return got.bytes > 0;
}

std::string_view Session::unread() const {
  return {input_.get() + input_begin_, input_end_ - input_begin_};
}

void Session::consume(std::size_t bytes) { input_begin_ += bytes; }

// The lines that every answer has.
ResponseHead Session::begin_answer(int status, std::string_view content_type) {
  assert(!has_answered_ && "a request is answered once");
  has_answered_ = true;
  note_unsent();
  ResponseHead answer(outbox_, status);
  answer.add("date", context_.date.at(context_.clock.wall()));
  answer.add("content-type", content_type);
  answer.add("x-request-id", request_id_);
  standing_lines_.append_to(outbox_, context_);
  return answer;
}

void Session::end_answer(ResponseHead& answer, std::string_view body) {
  is_chunked_answer_ = false;
  if (!body_is_read_) keep_alive_ = false;
  answer.end_with_length(body.size(), keep_alive_);
  if (head().method != Method::Head) outbox_ += body;
  flush();
}

void Session::respond(int status, std::string_view content_type, std::string_view header_lines,
                      std::string_view body) {
  ResponseHead answer = begin_answer(status, content_type);
  answer.add_block(header_lines);
  end_answer(answer, body);
}

void Session::respond_error(const ApiError& error, std::string_view header_lines) {
  const std::string body = error_body(error, request_id_);
  ResponseHead answer = begin_answer(error.status(), kJsonType);
  answer.add_block(header_lines);
  append_error_lines(outbox_, error);
  end_answer(answer, body);
}

void Session::begin_stream() {
  is_chunked_answer_ = !head().is_http_1_0;
  if (!is_chunked_answer_) keep_alive_ = false;
  ResponseHead answer = begin_answer(200, "text/event-stream; charset=utf-8");
  answer.add("cache-control", "no-cache");
  if (is_chunked_answer_) {
    answer.end_chunked(keep_alive_);
  } else {
    answer.end_until_close();
  }
}

void Session::send_events(std::string_view events) {
  if (events.empty()) return;
  if (!is_chunked_answer_) return send(events);
  note_unsent();
  const std::size_t begin = open_chunk(outbox_);
  outbox_ += events;
  close_chunk(outbox_, begin);
}

void Session::end_stream() {
  if (is_chunked_answer_) send(kLastChunk);
}

// Appends to what is not sent yet; flush() gives it to the connection.
void Session::send(std::string_view bytes) {
  note_unsent();
  outbox_ += bytes;
}

// From the first byte that waits on, the client has write_stall_timeout to take some.
void Session::note_unsent() {
  if (unsent_bytes() == 0) last_progress_ = context_.clock.now();
}

void Session::hang_up() {
  gone_ = true;
  connection_->close();
}

void Session::flush() {
  const std::size_t before = unsent_bytes();
  while (!gone_ && unsent_bytes() > 0) {
    const Transfer sent =
        connection_->write_some(std::string_view(outbox_).substr(outbox_sent_));
    if (sent.closed) gone_ = true;
    if (sent.bytes == 0) break;
    outbox_sent_ += sent.bytes;
  }
  if (gone_ || unsent_bytes() == 0) {
    outbox_.clear();
    outbox_sent_ = 0;
  } else if (outbox_sent_ > outbox_.size() / 2) {
    outbox_.erase(0, outbox_sent_);
    outbox_sent_ = 0;
  }
  if (unsent_bytes() == 0) {
    above_soft_since_.reset();
    return;
  }
  const policy::Instant now = context_.clock.now();
  if (unsent_bytes() < before) last_progress_ = now;
  if (unsent_bytes() <= context_.limits.stream_soft_bytes) {
    above_soft_since_.reset();
  } else if (!above_soft_since_) {
    above_soft_since_ = now;
  }
}

std::optional<policy::Instant> Session::write_limit() const {
  if (unsent_bytes() == 0) return std::nullopt;
  policy::Instant limit = last_progress_ + context_.limits.write_stall_timeout;
  if (above_soft_since_) {
    limit = std::min(limit, *above_soft_since_ + policy::Duration(
                                                      context_.limits.stream_soft_time));
  }
  return limit;
}

bool Session::reader_is_too_slow(policy::Instant now) const {
  if (unsent_bytes() > context_.limits.stream_hard_bytes) return true;
  const auto limit = write_limit();
  return limit && now >= *limit;
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
