#include "policy/long_key.h"

namespace turnstile::policy {

// Comments and the quotes of one line are stepped over. Three quotes open or close a string of
// several lines; they are left out, and what stands in such a string is looked at like all else.
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
      if (text.substr(i, 3) == std::string_view(c == '"' ? "\"\"\"" : "'''")) {
        i += 2;
      } else {
        quote = c;
      }
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

}  // namespace turnstile::policy
