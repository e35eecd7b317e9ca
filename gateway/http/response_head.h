// response_head.h: the first part of an HTTP answer as bytes.
//
// ResponseHead appends the status line, add() the fields, and one of end_with_length(),
// end_chunked() and end_until_close() the empty line.
//
// Values are ours or were checked when they came in (no control bytes reach a header).
//
// Thread: I/O. Cost: appends to one string; nothing is formatted twice.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace turnstile::gateway {

std::string_view reason_phrase(int status);

class ResponseHead {
 public:
  ResponseHead(std::string& out, int status);

  void add(std::string_view name, std::string_view value);
  void add(std::string_view name, std::uint64_t value);
  void add_block(std::string_view lines) { out_ += lines; }  // "name: value\r\n" lines

  // Chunked is for HTTP/1.1; an HTTP/1.0 client gets end_until_close().
  void end_with_length(std::size_t body_bytes, bool keep_alive);
  void end_chunked(bool keep_alive);
  void end_until_close();

 private:
  void end(bool keep_alive);

  std::string& out_;
};

// One chunk of a chunked body around what was appended to `out` since `begin`, at least one byte
// and at most kMaxChunkBytes; reserve the room for its size first with open_chunk(), so that text
// is not moved.
inline constexpr std::size_t kMaxChunkBytes = (std::size_t{1} << 24) - 1;  // six digits
std::size_t open_chunk(std::string& out);
void close_chunk(std::string& out, std::size_t begin);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace turnstile::gateway
