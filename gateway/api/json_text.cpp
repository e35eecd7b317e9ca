#include "gateway/api/json_text.h"

#include <algorithm>
#include <array>
#include <boost/json/serializer.hpp>
#include <boost/json/string_view.hpp>
#include <cassert>
#include <charconv>
#include <cmath>

namespace turnstile::gateway {
namespace {

template <typename... Args>
void append_number(std::string& out, Args... args) {
  std::array<char, 64> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), args...);
  assert(result.ec == std::errc() && "64 characters hold any number");
  out.append(digits.data(), result.ptr);
}

// Printable ASCII without quote and backslash: nearly every text here, and what completions consist
// of. No early end, so that the compiler looks at many bytes at a time.
bool stands_for_itself(std::string_view text) {
  unsigned odd = 0;
  for (const char c : text) odd |= (c < ' ') | (c > '~') | (c == '"') | (c == '\\');
  return odd == 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  if (stands_for_itself(text)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  boost::json::serializer serializer;
  serializer.reset(boost::json::string_view(text.data(), text.size()));
  std::array<char, 512> piece;
  while (!serializer.done()) {
    const boost::json::string_view read = serializer.read(piece.data(), piece.size());
    out.append(read.data(), read.size());
  }
}

void append_json_int(std::string& out, std::int64_t value) { append_number(out, value); }

void append_json_uint(std::string& out, std::uint64_t value) { append_number(out, value); }

void append_json_decimal(std::string& out, double value) {
  assert(std::isfinite(value) && "a duration is finite");
  // 1e15 keeps the text within the digits' array; no duration comes near it.
  append_number(out, std::clamp(value, -1e15, 1e15), std::chars_format::fixed, 3);
}

void append_json_logprob(std::string& out, float value) {
  append_number(out, std::isnan(value) ? -9999.0F : std::clamp(value, -9999.0F, 0.0F));
}

}  // namespace turnstile::gateway
