// http_reader.h: reads one HTTP/1.1 response, in pieces of any size.
//
// Knows what a load client meets: a status line, headers, then a body that is chunked, has a
// Content-Length, or lasts until the connection closes. Interim responses (1xx) are skipped.
// Errors: a response that is not of this form sets failed(); the connection is then useless.
// Limits: kMaxHeadBytes for status line and headers, kMaxLineBytes for a chunk-size line.
// Cost:   linear in the bytes fed; body bytes are copied once, into the caller's string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::load {

class HttpReader {
 public:
  static constexpr std::size_t kMaxHeadBytes = 64 * 1024;
  static constexpr std::size_t kMaxLineBytes = 256;

  // Appends the body bytes among `bytes` to `body`. Bytes after the end of the response are an
  // error: this client never sends a second request before the first has been answered.
  void feed(std::string_view bytes, std::string& body);

  // The peer closed the connection: ends a body without a length, cuts any other short.
  void on_close();

  void reset() { *this = HttpReader(); }

  bool done() const { return state_ == State::Done; }
  bool failed() const { return state_ == State::Failed; }
  bool head_complete() const { return head_complete_; }

  // Valid once head_complete().
  int status() const { return status_; }
  bool is_event_stream() const { return is_event_stream_; }
  bool keeps_connection() const { return keeps_connection_; }
  std::optional<double> retry_after_s() const { return retry_after_s_; }

 private:
  enum class State {
    Head, LengthBody, CloseBody, ChunkSize, ChunkData, ChunkEnd, Trailer, Done, Failed
  };

  void read_head(std::string_view& bytes);
  void read_sized_body(std::string_view& bytes, std::string& body, State after);
  void read_line_state(std::string_view& bytes);
  void on_head();
  void on_header(std::string_view name, std::string_view value);
  void on_line(std::string_view line);

  State state_ = State::Head;
  std::string line_;             // the head, or the current chunk-size or trailer line
  std::uint64_t left_bytes_ = 0; // of the body with a length, or of the current chunk
  std::optional<std::uint64_t> content_length_;
  bool is_chunked_ = false;
  bool head_complete_ = false;
  int status_ = 0;
  bool is_event_stream_ = false;
  bool keeps_connection_ = true;
  std::optional<double> retry_after_s_;
};

}  // namespace turnstile::load
