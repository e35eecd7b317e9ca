#include "gateway/session.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace turnstile::gateway {
namespace {

constexpr std::string_view kJsonType = "application/json";

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

// Reads until the socket is empty or the buffer full, which means, as nobody parses it meanwhile,
// that the client sends on and on instead of reading its answer: it is treated as gone.
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
  note_unsent();
  largest_step_bytes_ = std::max(largest_step_bytes_, events.size());
  if (!is_chunked_answer_) return send(events);
  while (!events.empty()) {
    const std::string_view piece = events.substr(0, kMaxChunkBytes);
    const std::size_t begin = open_chunk(outbox_);
    outbox_ += piece;
    close_chunk(outbox_, begin);
    events.remove_prefix(piece.size());
  }
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
  if (unsent_bytes() > 0) return;
  last_progress_ = context_.clock.now();
  largest_step_bytes_ = 0;
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
  // What came at once is no sign of a slow reader: a long prompt told back, with the first token.
  if (unsent_bytes() > largest_step_bytes_ + context_.limits.stream_hard_bytes) return true;
  const auto limit = write_limit();
  return limit && now >= *limit;
}

}  // namespace turnstile::gateway
