// json_object.h: writes one JSON object, member by member, into a string.
//
// For records, whose shape is fixed. A member whose value is absent or empty is left out, as the
// records promise ("absent values are absent, not null"). Nested objects are opened and closed by
// hand; the writer puts the commas.
//
// Cost: no allocation beyond the string's growth. Names are literals and are not escaped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/instant.h"

namespace turnstile::gateway {

class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }

  void text(std::string_view name, std::string_view value);  // always written
  void text_if(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  void count(std::string_view name, std::uint64_t value);
  void integer(std::string_view name, std::int64_t value);
  void boolean(std::string_view name, bool value);
  void ms(std::string_view name, policy::Duration value);  // milliseconds with three decimals
  void ms_if(std::string_view name, const std::optional<policy::Duration>& value) {
    if (value) ms(name, *value);
  }
  void raw(std::string_view name, std::string_view json);

  // A member that is an object or an array of objects; close_* ends the innermost one.
  void open(std::string_view name);
  void close() {
    out_ += '}';
    needs_comma_ = true;
  }
  void open_array(std::string_view name);
  void open_element();
  void close_array() {
    out_ += ']';
    needs_comma_ = true;
  }

 private:
  void begin(std::string_view name);

  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace turnstile::gateway
