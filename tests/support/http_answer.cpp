#include "tests/support/http_answer.h"

#include <charconv>
#include <stdexcept>

namespace turnstile::tests {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("answer: " + what); }

int parse_status(std::string_view line) {
  int status = 0;
  if (!line.starts_with("HTTP/1.1 ") || line.size() < 13) fail("no status line");
  std::from_chars(line.data() + 9, line.data() + 12, status);
  return status;
}

// Appends whole chunks to the body; true when the last one was there.
bool read_chunks(std::string_view bytes, HttpAnswer& answer, std::size_t& consumed) {
  for (;;) {
    const std::size_t end = bytes.find("\r\n", consumed);
    if (end == std::string_view::npos) return false;
    std::size_t size = 0;
    const auto parsed =
        std::from_chars(bytes.data() + consumed, bytes.data() + end, size, 16);
    if (parsed.ptr != bytes.data() + end) fail("a chunk size that is no number");
    if (bytes.size() < end + 2 + size + 2) return false;
    if (bytes.substr(end + 2 + size, 2) != "\r\n") fail("a chunk without its end");
    consumed = end + 2 + size + 2;
    if (size == 0) return true;
    answer.body += bytes.substr(end + 2, size);
    ++answer.chunks;
  }
}

}  // namespace

std::optional<HttpAnswer> take_answer(std::string& bytes, bool until_close) {
  const std::size_t head_end = bytes.find("\r\n\r\n");
  if (head_end == std::string::npos) return std::nullopt;
  HttpAnswer answer;
  std::string_view head = std::string_view(bytes).substr(0, head_end + 2);
  bool is_first = true;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (is_first) {
      answer.status = parse_status(line);
      is_first = false;
      continue;
    }
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) fail("a header line without a colon");
    const std::string name(line.substr(0, colon));
    if (!answer.headers.emplace(name, line.substr(colon + 2)).second) fail(name + " twice");
  }
  std::size_t consumed = head_end + 4;
  if (answer.status == 100) {
    answer.is_complete = true;
  } else if (!answer.header("transfer-encoding").empty()) {
    answer.is_complete = read_chunks(bytes, answer, consumed);
  } else if (!answer.header("content-length").empty()) {
    const std::size_t length = std::stoul(answer.header("content-length"));
    answer.is_complete = bytes.size() >= consumed + length;
    answer.body = bytes.substr(consumed, length);
    consumed += answer.body.size();
  } else {
    answer.body = bytes.substr(consumed);
    consumed = bytes.size();
    answer.is_complete = until_close;
  }
  if (answer.is_complete) bytes.erase(0, consumed);
  return answer;
}

std::vector<std::string> stream_events(std::string_view body, bool may_be_cut) {
  std::vector<std::string> events;
  while (!body.empty()) {
    const std::size_t end = body.find("\n\n");
    if (end == std::string_view::npos) {
      if (may_be_cut) return events;
      fail("a stream that ends inside an event");
    }
    const std::string_view frame = body.substr(0, end);
    body.remove_prefix(end + 2);
    if (frame.starts_with(":")) continue;
    if (!frame.starts_with("data: ")) fail("a frame without data");
    if (frame.find('\n') != std::string_view::npos) fail("a frame of several lines");
    events.emplace_back(frame.substr(6));
  }
  return events;
}

}  // namespace turnstile::tests
