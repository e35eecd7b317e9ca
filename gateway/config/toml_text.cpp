#include "gateway/config/toml_text.h"

#include <utility>

#include "policy/long_key.h"
#include "policy/syntax_message.h"

namespace turnstile::gateway {

ConfigError error_at(const std::string& file, const toml::source_region& where,
                     std::string message) {
  return {file, where.begin.line, where.begin.column, std::move(message)};
}

tl::expected<toml::table, ConfigError> parse_toml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxTomlBytes) {
    return tl::unexpected(ConfigError{file, 0, 0, "the file is larger than 4 MiB; shorten it."});
  }
  if (const auto line = policy::find_long_key(text)) {
    return tl::unexpected(
        ConfigError{file, *line, 1, "a key has more than 16 parts; none that exists has."});
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return tl::unexpected(error_at(
        file, error.source(),
        policy::syntax_message(text, error.description(), {at.line, at.column}) + "."));
  } catch (const policy::UnreadText&) {
    const policy::SyntaxError error = policy::error_of_unread_text(text);
    return tl::unexpected(ConfigError{file, static_cast<std::uint32_t>(error.at.line),
                                      static_cast<std::uint32_t>(error.at.column),
                                      error.message + "."});
  }
}

}  // namespace turnstile::gateway
