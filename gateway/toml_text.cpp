#include "gateway/toml_text.h"

#include <optional>
#include <utility>

namespace turnstile::gateway {
namespace {

// The line of a key with more than kMaxKeyParts parts. Quotes and comments are stepped over, which
// is enough to never pass such a key; a stray quote only makes the real parser the judge.
std::optional<std::uint32_t> find_long_key(std::string_view text) {
  std::uint32_t line = 1;
  std::size_t dots = 0;
  char quote = 0;
  bool in_comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = 0;
      in_comment = false;
    } else if (in_comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      in_comment = true;
    } else if (c == '.') {
      if (++dots >= kMaxKeyParts) return line;
    } else if (c == '=' || c == ',' || c == '{' || c == '}' || c == '[' || c == ']') {
      dots = 0;
    }
  }
  return std::nullopt;
}

}  // namespace

ConfigError error_at(const std::string& file, const toml::source_region& where,
                     std::string message) {
  return {file, where.begin.line, where.begin.column, std::move(message)};
}

tl::expected<toml::table, ConfigError> parse_toml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxTomlBytes) {
    return tl::unexpected(ConfigError{file, 0, 0, "the file is larger than 4 MiB; shorten it."});
  }
  if (const auto line = find_long_key(text)) {
    return tl::unexpected(
        ConfigError{file, *line, 1, "a key has more than 16 parts; none that exists has."});
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return tl::unexpected(error_at(file, error.source(), std::string(error.description()) + "."));
  }
}

}  // namespace turnstile::gateway
