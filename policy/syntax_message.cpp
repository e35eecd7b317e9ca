#include "policy/syntax_message.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace turnstile::policy {
namespace {

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

bool begins_a_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '"' ||
         c == '\'';
}

// "[name]", "[[name]]", "[name.part]" or "[whole.name]".
bool is_header_of(std::string_view row, std::string_view name) {
  if (!row.starts_with('[')) return false;
  row = row.substr(0, row.find(']'));
  while (row.starts_with('[')) row.remove_prefix(1);
  const std::size_t rest = row.size() < name.size() ? 0 : row.size() - name.size();
  return row == name || (row.starts_with(name) && row[name.size()] == '.') ||
         (row.ends_with(name) && rest > 0 && row[rest - 1] == '.');
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
  const std::string_view key = name.substr(name.rfind('.') + 1);
  const auto in_line = [](std::int64_t line) { return " (line " + std::to_string(line) + ")"; };
  std::int64_t found = 0;
  for (std::int64_t line = 1; line < at.line; ++line) {
    std::string_view row = next_row(text);
    row.remove_prefix(std::min(row.find_first_not_of(" \t"), row.size()));
    if (is_header_of(row, name)) return in_line(line);
    const bool is_key =
        row.starts_with(key) && row.find_first_not_of(" \t", key.size()) == row.find('=');
    if (is_key) found = line;
  }
  if (found > 0) return in_line(found);
  const std::string_view row = next_row(text);
  return row.find(key) != row.rfind(key) ? in_line(at.line) : std::string{};
}

}  // namespace

std::string syntax_message(std::string_view text, std::string_view description, Position at) {
  const std::string_view row = row_of(text, at.line);
  const bool at_end = at.column > static_cast<std::int64_t>(row.size());
  if (at_end && description.find("parsing string") != std::string_view::npos) {
    return "a text is not closed where its line ends";
  }
  if (description.find("utf-8") != std::string_view::npos) {
    return "the file is not in UTF-8; save it in that encoding";
  }
  constexpr std::string_view kBegin = "Error while parsing ";
  std::string message = "cannot read this ";
  message += description.starts_with(kBegin) ? description.substr(kBegin.size()) : description;
  message += first_definition(text, description, at);
  return message;
}

SyntaxError error_of_unread_text(std::string_view text) {
  Position at;
  for (std::string_view rest = text; !rest.empty(); ++at.line) {
    const std::string_view row = next_row(rest);
    const std::size_t open = row.find_first_not_of(" \t");
    if (open == std::string_view::npos || row[open] != '[') continue;
    const std::size_t name = std::min(row.find_first_not_of("[ \t", open), row.size());
    if (name < row.size() && begins_a_key(row[name])) continue;
    at.column = static_cast<std::int64_t>(name) + 1;
    return {at, "a table header needs a name, as in [NAME]"};
  }
  return {Position{}, "cannot read this text as TOML"};
}

}  // namespace turnstile::policy
