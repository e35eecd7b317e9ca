// session.h: one connection from accept to close: its requests, one after the other.
//
//   run():  handshake -> [ head -> handler -> answer written -> keep-alive ]* -> close
//
// A handler (completion.h, plain_routes.h) is a coroutine that gets the session: it reads the body
// when it wants to, waits at the session's mailbox, and writes through the session. Bytes of a next
// request that come early wait in the read buffer; a client that sends more than the buffer while
// it is owed an answer is cut off.
//
// session.cpp has what never waits; session_run.cpp what does, and run(), which chooses a handler.
//
// Slow readers: what the socket does not take stays here, of a stream at most what one step brought
// and LimitsConfig::stream_hard_bytes more. reader_is_too_slow() applies the limits; the engine
// never waits for a reader.
//
// Thread:    I/O.
// Lifetime:  owned by the server until run() has ended.
// Errors:    the client's end is a state (is_gone()), a broken request an ApiError.
// Tests:     tests/gateway/plain_routes_test.cpp (raw bytes in and out, split at every byte).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/http/connection.h"
#include "gateway/deadlines.h"
#include "gateway/http/http_reader.h"
#include "gateway/mailbox.h"
#include "gateway/http/response_head.h"
#include "gateway/http/routes.h"
#include "gateway/spine_context.h"
#include "gateway/standing_lines.h"

namespace turnstile::gateway {

class Session final : private ConnectionSink {
 public:
  Session(SpineContext& context, std::unique_ptr<Connection> connection, ListenerKind listener);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Awaitable<void> run();

  // The request.
  const RequestHead& head() const { return reader_.head(); }
  // Absent when there is no TLS handshake to be done.
  std::optional<policy::Instant> handshake_began() const { return handshake_began_; }
  bool needs_keys() const { return listener_ == ListenerKind::Public; }
  const std::string& request_id() const { return request_id_; }
  const PeerAddress& peer() const { return connection_->peer(); }
  Mailbox& mailbox() { return mailbox_; }
  Deadline& deadline() { return deadline_; }
  KnownKey& known_key() { return known_key_; }

  // Reads the whole body within its time. The error is the answer to give; absent when the client
  // is gone and nobody is there to answer.
  Awaitable<tl::expected<void, std::optional<ApiError>>> read_body();
  std::string& body() { return reader_.body(); }

  // Takes what the client has sent while it waits for its answer; false when it is gone. Called at
  // each Readable from the request's last byte on.
  bool receive();
  bool is_gone() const { return gone_; }

  // The answer. `header_lines` are complete "name: value\r\n" lines, beside those that the answer
  // to this request has in any case.
  StandingLines& standing_lines() { return standing_lines_; }
  void respond(int status, std::string_view content_type, std::string_view header_lines,
               std::string_view body);
  void respond_error(const ApiError& error, std::string_view header_lines = {});
  void begin_stream();
  void send_events(std::string_view events);  // whole server-sent events, one write
  void end_stream();
  bool has_answered() const { return has_answered_; }

  // Hands to the connection what it takes. Called at each Writable.
  void flush();
  std::size_t unsent_bytes() const { return outbox_.size() - outbox_sent_; }
  // When the reader becomes too slow if it takes nothing more.
  std::optional<policy::Instant> write_limit() const;
  bool reader_is_too_slow(policy::Instant now) const;

  // Ends the connection at once: the client is gone, or so slow that nothing more reaches it.
  void hang_up();

  // The server ends now: see EventKind::Shutdown.
  void shut_down() { mailbox_.put(EventKind::Shutdown); }

 private:
  void on_readable() override { mailbox_.put(EventKind::Readable); }
  void on_writable() override { mailbox_.put(EventKind::Writable); }

  Awaitable<bool> shake_hands();
  Awaitable<bool> read_head();
  Awaitable<void> answer_request();
  Awaitable<bool> flush_all();
  Awaitable<bool> let_others_pass();
  Awaitable<void> linger();
  void begin_request();
  void refuse_head(const ApiError& why);
  policy::Duration time_for_body() const;
  ResponseHead begin_answer(int status, std::string_view content_type);
  void end_answer(ResponseHead& answer, std::string_view body);
  void send(std::string_view bytes);
  void note_unsent();
  std::string_view unread() const;
  void consume(std::size_t bytes);
  bool read_into_buffer();

  SpineContext& context_;
  std::unique_ptr<Connection> connection_;
  ListenerKind listener_;
  Mailbox mailbox_;
  Deadline deadline_;
  HttpReader reader_;
  std::string request_id_;
  KnownKey known_key_;
  StandingLines standing_lines_;
  std::optional<policy::Instant> handshake_began_;

  std::unique_ptr<char[]> input_;  // LimitsConfig::read_buffer_bytes
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;

  std::string outbox_;
  std::size_t outbox_sent_ = 0;
  std::size_t largest_step_bytes_ = 0;  // of events, since nothing was unsent
  policy::Instant last_progress_{};                  // of the client's taking bytes
  std::optional<policy::Instant> above_soft_since_;  // unsent bytes over the soft limit

  std::uint32_t requests_ = 0;
  bool gone_ = false;
  bool keep_alive_ = true;
  bool body_is_read_ = false;
  bool has_answered_ = false;  // the head of the answer is on its way
  bool is_chunked_answer_ = false;
};

}  // namespace turnstile::gateway
