// framing.h: the guard in front of the HTTP parser: no byte reaches it unseen.
//
//   bytes --> HeaderGuard --whole header block--> parser (http_reader.h)
//                 '--> refusal: answer and close, the connection is never used again
//
// The guard finds the end of the header block itself and looks at what two parties could read
// differently or what could cost too much: line ends, the request line, sizes and counts, the
// fields that say where the body ends. What it lets through the parser checks again in its own way.
//
// Refused:  a line feed without carriage return, a bare carriage return, a line folded or with
//           blanks around its name, control bytes, a target that does not begin with "/" or is not
//           printable ASCII, versions other than 1.0 and 1.1, Content-Length twice or not digits,
//           Transfer-Encoding that is not exactly `chunked` or on 1.0 or beside Content-Length,
//           Host missing or twice on 1.1, Authorization twice, Expect other than 100-continue.
// Limits:   LimitsConfig max_header_bytes, max_header_field_bytes, max_header_count,
//           max_target_bytes.
//
// Thread:    any; a value. Cost: one pass over the bytes, however they are cut.
// Sources:   RFC 9112 (HTTP/1.1), RFC 9110.
// Tests:     tests/gateway/http_reader_test.cpp (a table of raw bytes, each split at every byte).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/api/api_error.h"
#include "gateway/config/limits_config.h"

namespace turnstile::gateway {

class HeaderGuard {
 public:
  explicit HeaderGuard(const LimitsConfig& limits) : limits_(&limits) {}

  struct Verdict {
    std::size_t header_bytes = 0;     // of the whole block with its empty line; 0: more is needed
    std::optional<ApiError> refused;  // answer with it and close
  };

  // `bytes` is everything received since the last request, from its first byte; call it again with
  // the same beginning and more behind it.
  Verdict inspect(std::string_view bytes);

  // For the next request of the connection.
  void reset() { *this = HeaderGuard(*limits_); }

 private:
  std::optional<ApiError> check_line(std::string_view line);
  std::optional<ApiError> check_request_line(std::string_view line);
  std::optional<ApiError> check_field(std::string_view line);
  std::optional<ApiError> check_framing_field(std::string_view name, std::string_view value);
  std::optional<ApiError> check_end() const;

  const LimitsConfig* limits_;
  std::size_t scanned_ = 0;     // bytes looked at
  std::size_t line_begin_ = 0;  // of the line that is not complete yet
  std::uint32_t lines_ = 0;     // complete ones, the request line included
  bool is_http_1_0_ = false;
  std::uint32_t hosts_ = 0;
  std::uint32_t content_lengths_ = 0;
  std::uint32_t transfer_encodings_ = 0;
  std::uint32_t authorizations_ = 0;
};

}  // namespace turnstile::gateway
