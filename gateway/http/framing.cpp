#include "gateway/http/framing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace turnstile::gateway {
namespace {

std::optional<ApiError> bad_request(std::string_view what) {
  return make_error(ApiCode::BadRequest, std::string(what));
}

std::optional<ApiError> too_large(std::string_view what, std::size_t limit,
                                  std::string_view unit) {
  return make_error(ApiCode::HeadersTooLarge, std::string(what) + " over the limit of " +
                                                  std::to_string(limit) + " " +
                                                  std::string(unit) + ".");
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 9110 section 5.6.2.
constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "abcdefghijklmnopqrstuvwxyz")) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();
constexpr bool is_token_char(char c) { return kTokenChars[static_cast<unsigned char>(c)]; }

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

// Printable ASCII without the space.
constexpr bool is_target_char(char c) { return c > 0x20 && c < 0x7f; }

// Visible characters, blanks, tabs and bytes of other encodings; no control bytes. No early end, so
// that the compiler looks at many bytes at a time.
bool is_value(std::string_view text) {
  unsigned odd = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    odd |= ((byte < 0x20) & (byte != '\t')) | (byte == 0x7f);
  }
  return odd == 0;
}

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool equals_ignoring_case(std::string_view a, std::string_view lower_case) {
  return a.size() == lower_case.size() &&
         std::equal(a.begin(), a.end(), lower_case.begin(),
                    [](char x, char y) { return lower(x) == y; });
}

std::string_view trim(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

HeaderGuard::Verdict HeaderGuard::inspect(std::string_view bytes) {
  while (scanned_ < bytes.size()) {
    const void* found =
        std::memchr(bytes.data() + scanned_, '\n', bytes.size() - scanned_);
    if (found == nullptr) {
      scanned_ = bytes.size();
      break;
    }
    const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    scanned_ = end + 1;
    if (scanned_ > limits_->max_header_bytes) break;
    if (end == line_begin_ || bytes[end - 1] != '\r') {
      return {0, bad_request("A line of the header ends without a carriage return.")};
    }
    const std::string_view line = bytes.substr(line_begin_, end - 1 - line_begin_);
    line_begin_ = scanned_;
    if (line.empty() && lines_ > 0) return {scanned_, check_end()};
    if (auto refused = check_line(line)) return {0, std::move(refused)};
    ++lines_;
  }
  const std::size_t open_line = scanned_ - line_begin_;
  if (lines_ == 0 && open_line > limits_->max_target_bytes + limits_->max_header_field_bytes) {
    return {0, make_error(ApiCode::UriTooLong, "The request line is too long.")};
  }
  if (scanned_ > limits_->max_header_bytes) {
    return {0, too_large("The header is", limits_->max_header_bytes, "bytes")};
  }
  if (lines_ > 0 && open_line > limits_->max_header_field_bytes + 2) {
    return {0, too_large("A header field is", limits_->max_header_field_bytes, "bytes")};
  }
  return {};
}

std::optional<ApiError> HeaderGuard::check_line(std::string_view line) {
  if (lines_ == 0) return check_request_line(line);
  if (line.size() > limits_->max_header_field_bytes) {
    return too_large("A header field is", limits_->max_header_field_bytes, "bytes");
  }
  if (lines_ > limits_->max_header_count) {
    return too_large("The header has fields", limits_->max_header_count, "fields");
  }
  return check_field(line);
}

std::optional<ApiError> HeaderGuard::check_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad_request("The request line is not METHOD TARGET VERSION.");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method)) return bad_request("The method holds characters that are not allowed.");
  if (target.size() > limits_->max_target_bytes) {
    return make_error(ApiCode::UriTooLong,
                      "The request target is over the limit of " +
                          std::to_string(limits_->max_target_bytes) + " bytes.");
  }
  if (target.empty() || target.front() != '/' ||
      !std::all_of(target.begin(), target.end(), is_target_char)) {
    return bad_request("The request target must begin with a slash and be printable ASCII.");
  }
  const bool is_version = version.size() == 8 && version.substr(0, 5) == "HTTP/" &&
                          is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
  if (!is_version) return bad_request("The request line does not end with an HTTP version.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return make_error(ApiCode::HttpVersion, "This server speaks HTTP/1.1 and HTTP/1.0.");
  }
  is_http_1_0_ = version == "HTTP/1.0";
  return std::nullopt;
}

std::optional<ApiError> HeaderGuard::check_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return bad_request("A header field is not NAME: VALUE.");
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (!is_value(value)) {
    return bad_request("A header field holds control characters.");
  }
  return check_framing_field(line.substr(0, colon), value);
}

std::optional<ApiError> HeaderGuard::check_framing_field(std::string_view name,
                                                         std::string_view value) {
  if (equals_ignoring_case(name, "content-length")) {
    // 19 digits always fit into 64 bits.
    const bool is_number = !value.empty() && value.size() <= 19 &&
                           std::all_of(value.begin(), value.end(), is_digit);
    if (!is_number) return bad_request("Content-Length must be a decimal number.");
    if (++content_lengths_ > 1) return bad_request("Content-Length is given twice.");
  } else if (equals_ignoring_case(name, "transfer-encoding")) {
    if (value != "chunked") return bad_request("Transfer-Encoding must be exactly chunked.");
    if (++transfer_encodings_ > 1) return bad_request("Transfer-Encoding is given twice.");
  } else if (equals_ignoring_case(name, "host")) {
    ++hosts_;
  } else if (equals_ignoring_case(name, "authorization")) {
    if (++authorizations_ > 1) return bad_request("Authorization is given twice.");
  } else if (equals_ignoring_case(name, "expect")) {
    if (!equals_ignoring_case(value, "100-continue")) {
      return make_error(ApiCode::ExpectationFailed, "The only expectation known is 100-continue.");
    }
  }
  return std::nullopt;
}

std::optional<ApiError> HeaderGuard::check_end() const {
  if (content_lengths_ > 0 && transfer_encodings_ > 0) {
    return bad_request("Content-Length and Transfer-Encoding exclude each other.");
  }
  if (transfer_encodings_ > 0 && is_http_1_0_) {
    return bad_request("HTTP/1.0 has no Transfer-Encoding.");
  }
  if (hosts_ > 1 || (hosts_ == 0 && !is_http_1_0_)) {
    return bad_request("The header must name the host once.");
  }
  return std::nullopt;
}

}  // namespace turnstile::gateway
