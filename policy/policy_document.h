// policy_document.h: a TOML text as a plain tree with positions, in the order of the text.
//
// The only place that knows the TOML library. Its tables are sorted by name and its headers are
// heavy; the reader needs the order of the text (the first model is the default) and light headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace turnstile::policy {

struct Position {
  std::int64_t line = 1;    // from 1
  std::int64_t column = 1;  // from 1, in characters
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct DocumentValue {
  enum class Kind : std::uint8_t { Table, Array, Text, Integer, Real, Boolean, DateTime };

  struct Member;

  Kind kind = Kind::Table;
  Position at;
  std::string text;          // Text
  std::int64_t integer = 0;  // Integer
  double real = 0;           // Real
  bool boolean = false;      // Boolean
  std::vector<Member> members;          // Table, in the order of the text
  std::vector<DocumentValue> elements;  // Array

  const Member* find(std::string_view name) const;  // nullptr when absent
};

struct DocumentValue::Member {
  std::string name;
  Position at;  // of the name
  DocumentValue value;
};

struct SyntaxError {
  Position at;
  std::string message;
};

tl::expected<DocumentValue, SyntaxError> parse_document(std::string_view text);

}  // namespace turnstile::policy
