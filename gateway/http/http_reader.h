// http_reader.h: bytes of one request become a RequestHead and a body.
//
//   read_head(bytes) ... Done  --> the spine checks the key -->  read_body(bytes) ... Done
//
// Bytes pass the guard (framing.h) first and then Beast's parser. The header is complete before one
// byte of the body is looked at, so that a stranger's body is never read.
//
// Only the header fields that the gateway acts on are kept. Their strings live as long as the
// connection and are reused, so the second request of a connection allocates nothing here.
//
// Refused beyond what the guard refuses: a line feed without carriage return in the framing of
// chunks, chunk extensions, trailers, more chunks or bytes than the limits. Each refusal means:
// answer and close.
//
// Thread:    I/O. A pure function of the bytes: no socket, no clock.
// Cost:      one pass; the body is copied once and grows as bytes arrive, never by what a client
//            declares.
// Tests:     tests/gateway/http_reader_test.cpp (a table of raw bytes, each split at every byte).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/api_error.h"
#include "gateway/config/limits_config.h"

namespace turnstile::gateway {

enum class Method : std::uint8_t { Get, Post, Head, Options, Other };

struct RequestHead {
  Method method = Method::Other;
  std::string target;
  bool is_http_1_0 = false;
  bool keep_alive = true;
  bool expects_continue = false;
  bool has_origin = false;  // a web page asks, or says so
  std::optional<std::uint64_t> content_length;
  bool is_chunked = false;

  std::string host;  // empty: HTTP/1.0 without one
  std::string authorization;
  std::string content_type;
  std::string content_encoding;
  std::string service_class;      // X-Turnstile-Class
  std::string deadline_ms;        // X-Turnstile-Deadline-Ms
  std::string client_request_id;  // X-Request-Id
  std::string ticket;             // X-Admission-Ticket

  bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

class HttpReader {
 public:
  explicit HttpReader(const LimitsConfig& limits);
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  struct Step {
    std::size_t consumed = 0;  // drop so many bytes from the front
    bool done = false;         // the header, or the body, is complete
    std::optional<ApiError> refused;
  };

  // `bytes` begins where the last call stopped consuming.
  Step read_head(std::string_view bytes);

  // REQUIRES: read_head() was done and the head has a body.
  Step read_body(std::string_view bytes);

  const RequestHead& head() const;
  std::string& body();

  // Forgets the request; the next one of the connection may begin.
  void next_request();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
