#include "policy/policy_document.h"

#include <algorithm>
#include <toml++/toml.h>

#include "policy/long_key.h"

namespace turnstile::policy {
namespace {

Position position(const toml::source_region& region) {
  return {static_cast<std::int64_t>(region.begin.line),
          static_cast<std::int64_t>(region.begin.column)};
}

DocumentValue convert(const toml::node& node) {
  DocumentValue value;
  value.at = position(node.source());
  switch (node.type()) {
    case toml::node_type::table:
      value.kind = DocumentValue::Kind::Table;
      for (const auto& [key, child] : *node.as_table()) {
        value.members.push_back(
            {std::string(key.str()), position(key.source()), convert(child)});
      }
      std::ranges::stable_sort(value.members, {}, &DocumentValue::Member::at);
      return value;
    case toml::node_type::array:
      value.kind = DocumentValue::Kind::Array;
      for (const toml::node& child : *node.as_array()) value.elements.push_back(convert(child));
      return value;
    case toml::node_type::string:
      value.kind = DocumentValue::Kind::Text;
      value.text = node.as_string()->get();
      return value;
    case toml::node_type::integer:
      value.kind = DocumentValue::Kind::Integer;
      value.integer = node.as_integer()->get();
      return value;
    case toml::node_type::floating_point:
      value.kind = DocumentValue::Kind::Real;
      value.real = node.as_floating_point()->get();
      return value;
    case toml::node_type::boolean:
      value.kind = DocumentValue::Kind::Boolean;
      value.boolean = node.as_boolean()->get();
      return value;
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      value.kind = DocumentValue::Kind::DateTime;
      return value;
  }
  return value;
}

// Takes a line off the front of `text`.
std::string_view next_row(std::string_view& text) {
  const std::string_view row = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(row.size() + 1, text.size()));
  return row;
}

std::string_view row_of(std::string_view text, std::int64_t line) {
  while (--line > 0) next_row(text);
  return next_row(text);
}

// " (line N)" of the first of two definitions: the library says only that there are two. The name
// is in quotes in its sentence, or else it is the first part of what stands at the place. The line
// is that of the table's header, or the last that begins with the key, or the same line.
std::string first_definition(std::string_view text, std::string_view description, Position at) {
  if (description.find("redefine") == std::string_view::npos) return {};
  const std::size_t open = description.find('\'');
  const std::size_t close = description.find('\'', open + 1);
  std::string_view name;
  if (close != std::string_view::npos) {
    name = description.substr(open + 1, close - open - 1);
  } else {
    name = row_of(text, at.line);
    name.remove_prefix(std::min(name.find_first_not_of(" \t["), name.size()));
    name = name.substr(0, name.find_first_of(" \t.=]"));
  }
  const std::string table = "[" + std::string(name) + "]";
  const std::string_view key = name.substr(name.rfind('.') + 1);
  const auto in_line = [](std::int64_t line) { return " (line " + std::to_string(line) + ")"; };
  std::int64_t found = 0;
  for (std::int64_t line = 1; line < at.line; ++line) {
    std::string_view row = next_row(text);
    row.remove_prefix(std::min(row.find_first_not_of(" \t"), row.size()));
    if (row.starts_with(table)) return in_line(line);
    const bool is_key =
        row.starts_with(key) && row.find_first_not_of(" \t", key.size()) == row.find('=');
    if (is_key) found = line;
  }
  if (found > 0) return in_line(found);
  const std::string_view row = next_row(text);
  return row.find(key) != row.rfind(key) ? in_line(at.line) : std::string{};
}

// The library's sentence says what is expected; only its beginning is ours.
std::string syntax_message(std::string_view text, std::string_view description, Position at) {
  const std::string_view row = row_of(text, at.line);
  const bool at_end = at.column > static_cast<std::int64_t>(row.size());
  if (at_end && description.find("parsing string") != std::string_view::npos) {
    return "a text is not closed where its line ends";
  }
  constexpr std::string_view kBegin = "Error while parsing ";
  std::string message = "cannot read this ";
  message += description.starts_with(kBegin) ? description.substr(kBegin.size()) : description;
  message += first_definition(text, description, at);
  return message;
}

}  // namespace

const DocumentValue::Member* DocumentValue::find(std::string_view name) const {
  const auto it = std::ranges::find(members, name, &Member::name);
  return it == members.end() ? nullptr : &*it;
}

tl::expected<DocumentValue, SyntaxError> parse_document(std::string_view text) {
  if (const auto line = find_long_key(text)) {
    return tl::unexpected(
        SyntaxError{{*line, 1}, "a key has more than 16 parts; none that exists has"});
  }
  try {
    return convert(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const Position at = position(error.source());
    return tl::unexpected(SyntaxError{at, syntax_message(text, error.description(), at)});
  }
}

}  // namespace turnstile::policy
