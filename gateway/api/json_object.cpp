#include "gateway/api/json_object.h"

#include <array>

#include "gateway/api/json_text.h"

namespace turnstile::gateway {
void JsonObject::begin(std::string_view name) {
  if (needs_comma_) out_ += ',';
  out_ += '"';
  out_ += name;
  out_ += "\":";
  needs_comma_ = true;
}

void JsonObject::text(std::string_view name, std::string_view value) {
  begin(name);
  append_json_string(out_, value);
}

void JsonObject::count(std::string_view name, std::uint64_t value) {
  begin(name);
  append_json_uint(out_, value);
}

void JsonObject::integer(std::string_view name, std::int64_t value) {
  begin(name);
  append_json_int(out_, value);
}

void JsonObject::boolean(std::string_view name, bool value) {
  begin(name);
  out_ += value ? "true" : "false";
}

void JsonObject::ms(std::string_view name, policy::Duration value) {
  begin(name);
  const std::int64_t microseconds = value.count() / 1'000;
  const std::int64_t positive = microseconds < 0 ? -microseconds : microseconds;
  if (microseconds < 0) out_ += '-';
  append_json_int(out_, positive / 1'000);
  const auto fraction = static_cast<unsigned>(positive % 1'000);
  const std::array<char, 4> digits{'.', static_cast<char>('0' + fraction / 100),
                                   static_cast<char>('0' + fraction / 10 % 10),
                                   static_cast<char>('0' + fraction % 10)};
  out_.append(digits.data(), digits.size());
}

void JsonObject::raw(std::string_view name, std::string_view json) {
  begin(name);
  out_ += json;
}

void JsonObject::open(std::string_view name) {
  begin(name);
  out_ += '{';
  needs_comma_ = false;
}

void JsonObject::open_array(std::string_view name) {
  begin(name);
  out_ += '[';
  needs_comma_ = false;
}

void JsonObject::open_element() {
  if (needs_comma_) out_ += ',';
  out_ += '{';
  needs_comma_ = false;
}

}  // namespace turnstile::gateway
