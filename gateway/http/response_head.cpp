#include "gateway/http/response_head.h"

#include <cassert>
#include <charconv>

namespace turnstile::gateway {
namespace {

// Leading zeros are allowed in a chunk size (RFC 9112 section 7.1), so its width is fixed.
constexpr std::size_t kChunkSizeDigits = 6;
static_assert(kMaxChunkBytes >> (4 * kChunkSizeDigits) == 0);
constexpr std::size_t kChunkHeadBytes = kChunkSizeDigits + 2;

void append_number(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

ResponseHead::ResponseHead(std::string& out, int status) : out_(out) {
  out_ += "HTTP/1.1 ";
  append_number(out_, static_cast<std::uint64_t>(status));
  out_ += ' ';
  out_ += reason_phrase(status);
  out_ += "\r\n";
}

void ResponseHead::add(std::string_view name, std::string_view value) {
  out_ += name;
  out_ += ": ";
  out_ += value;
  out_ += "\r\n";
}

void ResponseHead::add(std::string_view name, std::uint64_t value) {
  out_ += name;
  out_ += ": ";
  append_number(out_, value);
  out_ += "\r\n";
}

void ResponseHead::end_with_length(std::size_t body_bytes, bool keep_alive) {
  add("content-length", body_bytes);
  end(keep_alive);
}

void ResponseHead::end_chunked(bool keep_alive) {
  add("transfer-encoding", "chunked");
  end(keep_alive);
}

void ResponseHead::end_until_close() { end(false); }

void ResponseHead::end(bool keep_alive) {
  if (!keep_alive) add("connection", "close");
  out_ += "\r\n";
}

std::size_t open_chunk(std::string& out) {
  out.append(kChunkHeadBytes, ' ');
  return out.size();
}

void close_chunk(std::string& out, std::size_t begin) {
  std::size_t size = out.size() - begin;
  assert(size > 0 && "an empty chunk would end the body");
  assert(size <= kMaxChunkBytes && "the size has its digits");
  char* head = out.data() + begin - kChunkHeadBytes;
  for (std::size_t i = kChunkSizeDigits; i-- > 0; size >>= 4) {
    head[i] = "0123456789abcdef"[size & 0xf];
  }
  head[kChunkSizeDigits] = '\r';
  head[kChunkSizeDigits + 1] = '\n';
  out += "\r\n";
}

}  // namespace turnstile::gateway
