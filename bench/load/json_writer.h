// json_writer.h: writes JSON text; commas and escapes are its business, nesting the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace turnstile::load {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(double number);  // shortest form that reads back equal; must be finite
  JsonWriter& value(bool truth);

  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void append_quoted(std::string_view text);

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace turnstile::load
