#include "bench/load/http_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace turnstile::load {
namespace {

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void HttpReader::feed(std::string_view bytes, std::string& body) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::Head:
        read_head(bytes);
        break;
      case State::LengthBody:
        read_sized_body(bytes, body, State::Done);
        break;
      case State::ChunkData:
        read_sized_body(bytes, body, State::ChunkEnd);
        break;
      case State::CloseBody:
        body.append(bytes);
        return;
      case State::ChunkSize:
      case State::ChunkEnd:
      case State::Trailer:
        read_line_state(bytes);
        break;
      case State::Done:
        state_ = State::Failed;
        return;
      case State::Failed:
        return;
    }
  }
}

void HttpReader::on_close() {
  if (state_ != State::Done) state_ = state_ == State::CloseBody ? State::Done : State::Failed;
  keeps_connection_ = false;
}

void HttpReader::read_head(std::string_view& bytes) {
  // The end mark may lie across two pieces: search from three bytes before the new ones.
  const std::size_t old_size = line_.size();
  const std::size_t taken = std::min(bytes.size(), kMaxHeadBytes - old_size);
  line_.append(bytes.substr(0, taken));
  const std::size_t end = line_.find("\r\n\r\n", old_size < 3 ? 0 : old_size - 3);
  if (end == std::string::npos) {
    bytes.remove_prefix(taken);
    if (line_.size() == kMaxHeadBytes) state_ = State::Failed;
    return;
  }
  bytes.remove_prefix(end + 4 - old_size);
  line_.resize(end + 2);
  on_head();
}

void HttpReader::on_head() {
  std::string head;
  head.swap(line_);
  const std::string_view view = head;
  const std::optional<int> status =
      view.starts_with("HTTP/1.") && view.size() >= 12 ? parse_number<int>(view.substr(9, 3))
                                                      : std::nullopt;
  if (!status) {
    state_ = State::Failed;
    return;
  }
  if (*status / 100 == 1) return;
  status_ = *status;
  keeps_connection_ = view.starts_with("HTTP/1.1");
  std::size_t at = view.find("\r\n") + 2;
  while (at < view.size()) {
    const std::size_t end = view.find("\r\n", at);
    const std::string_view header = view.substr(at, end - at);
    const std::size_t colon = header.find(':');
    if (colon != std::string_view::npos) {
      on_header(header.substr(0, colon), trim(header.substr(colon + 1)));
    }
    at = end + 2;
  }
  head_complete_ = true;
  left_bytes_ = content_length_.value_or(0);
  if (is_chunked_) {
    state_ = State::ChunkSize;
  } else if (content_length_ || status_ == 204 || status_ == 304) {
    state_ = left_bytes_ == 0 ? State::Done : State::LengthBody;
  } else {
    state_ = State::CloseBody;
  }
}

void HttpReader::on_header(std::string_view name, std::string_view value) {
  if (equals_ignoring_case(name, "content-length")) {
    content_length_ = parse_number<std::uint64_t>(value);
  } else if (equals_ignoring_case(name, "transfer-encoding")) {
    is_chunked_ = equals_ignoring_case(value, "chunked");
  } else if (equals_ignoring_case(name, "content-type")) {
    is_event_stream_ = value.starts_with("text/event-stream");
  } else if (equals_ignoring_case(name, "connection")) {
    keeps_connection_ = !equals_ignoring_case(value, "close");
  } else if (equals_ignoring_case(name, "retry-after")) {
    retry_after_s_ = parse_number<std::uint64_t>(value);
  }
}

void HttpReader::read_sized_body(std::string_view& bytes, std::string& body, State after) {
  const std::uint64_t taken = std::min<std::uint64_t>(bytes.size(), left_bytes_);
  body.append(bytes.substr(0, taken));
  bytes.remove_prefix(taken);
  left_bytes_ -= taken;
  if (left_bytes_ == 0) state_ = after;
}

void HttpReader::read_line_state(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::size_t taken = end == std::string_view::npos ? bytes.size() : end + 1;
  line_.append(bytes.substr(0, taken));
  bytes.remove_prefix(taken);
  if (line_.size() > kMaxLineBytes) {
    state_ = State::Failed;
  } else if (end != std::string_view::npos) {
    std::string line;
    line.swap(line_);
    line.pop_back();
    if (!line.empty() && line.back() == '\r') line.pop_back();
    on_line(line);
  }
}

void HttpReader::on_line(std::string_view line) {
  if (state_ == State::Trailer) {
    if (line.empty()) state_ = State::Done;
  } else if (state_ == State::ChunkEnd) {
    state_ = line.empty() ? State::ChunkSize : State::Failed;
  } else {
    const auto size = parse_number<std::uint64_t>(trim(line.substr(0, line.find(';'))), 16);
    left_bytes_ = size.value_or(0);
    state_ = !size ? State::Failed : *size == 0 ? State::Trailer : State::ChunkData;
  }
}

}  // namespace turnstile::load
