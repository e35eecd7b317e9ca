// lexer.h: cuts a template into tokens.
//
//   text {{ expression }} text {% statement %} text {# comment #} text
//
// White space follows Jinja with trim_blocks and lstrip_blocks: a line feed right after a
// statement or comment is dropped, and so is white space between the start of the line and one.
// `-` at a tag drops all white space on that side, `+` keeps what would be dropped. One line feed
// at the very end of the source is dropped; CR and CRLF count as LF.
//
// Errors: throws TemplateFailure, which Template::compile() catches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::engine {

enum class TokenKind : std::uint8_t {
  Text,         // between tags, after trimming; never empty
  OutputBegin,  // {{
  OutputEnd,
  BlockBegin,  // {%
  BlockEnd,
  Name,
  String,  // with its quotes and escapes
  Integer,
  Float,
  Operator,
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  int line = 1;
};

// The source with its line ends normalised and the last one dropped; tokens are views into it.
std::string normalize_source(std::string_view source);

// The last token is End.
std::vector<Token> tokenize_template(std::string_view normalized_source);

// What a String token stands for. Knows the escapes of Python but \N.
std::string decode_string_literal(const Token& token);

}  // namespace turnstile::engine
