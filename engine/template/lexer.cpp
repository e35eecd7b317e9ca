#include "engine/template/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "engine/template/template_failure.h"
#include "engine/template/text_space.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// Longer operators first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) {
      const std::size_t tag = find_tag(position_);
      const std::string_view text = source_.substr(position_, tag - position_);
      if (tag == source_.size()) {
        add_text(text);
        break;
      }
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char kind = source_[tag + 1];
      add_text(trim_before_tag(text, sign, kind == '{'));
      line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      position_ = tag + (sign == '-' || sign == '+' ? 3 : 2);
      if (kind == '#') {
        skip_comment();
      } else {
        read_tag(kind == '{');
      }
    }
    tokens_.push_back({TokenKind::End, {}, line_});
    return std::move(tokens_);
  }

 private:
  // Where the next "{{", "{%" or "{#" begins; the end of the source if there is none.
  std::size_t find_tag(std::size_t from) const {
    for (std::size_t at = source_.find('{', from); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 >= source_.size()) break;
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.size();
  }

  std::string_view trim_before_tag(std::string_view text, char sign, bool is_output) const {
    if (sign == '-') return text.substr(0, trailing_space_begin(text));
    if (sign == '+' || is_output) return text;
    const std::size_t line_feed = text.rfind('\n');
    const std::size_t line_begin = line_feed == std::string_view::npos ? 0 : line_feed + 1;
    if (line_begin == 0 && !at_line_start_) return text;
    const bool is_blank = trailing_space_begin(text.substr(line_begin)) == 0;
    return is_blank ? text.substr(0, line_begin) : text;
  }

  void add_text(std::string_view text) {
    if (!text.empty()) tokens_.push_back({TokenKind::Text, text, line_});
  }

  void add(TokenKind kind, std::size_t length) {
    tokens_.push_back({kind, source_.substr(position_, length), line_});
    advance(length);
  }

  void advance(std::size_t length) {
    const std::string_view passed = source_.substr(position_, length);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    position_ += length;
  }

  // Length of the end marker at `at`, with the white space that goes with it, or 0.
  std::size_t end_marker_length(std::size_t at, std::string_view marker, bool drops_line_feed) {
    const std::string_view rest = source_.substr(at);
    const bool has_sign = !rest.empty() && (rest[0] == '-' || (rest[0] == '+' && drops_line_feed));
    const std::size_t sign_length = has_sign ? 1 : 0;
    if (rest.substr(sign_length, marker.size()) != marker) return 0;
    std::size_t length = sign_length + marker.size();
    if (has_sign && rest[0] == '-') {
      length += leading_space_bytes(rest.substr(length));
    } else if (!has_sign && drops_line_feed && rest.substr(length, 1) == "\n") {
      ++length;
    }
    return length;
  }

  void end_tag(std::size_t length) {
    at_line_start_ = source_[position_ + length - 1] == '\n';
    advance(length);
  }

  void skip_comment() {
    for (std::size_t at = position_; at < source_.size(); ++at) {
      if (const std::size_t length = end_marker_length(at, "#}", true)) {
        advance(at - position_);
        end_tag(length);
        return;
      }
    }
    fail_at(line_, "a comment is not closed");
  }

  void read_tag(bool is_output) {
    const int begin_line = line_;
    tokens_.push_back({is_output ? TokenKind::OutputBegin : TokenKind::BlockBegin, {}, line_});
    const std::string_view marker = is_output ? "}}" : "%}";
    std::vector<char> open_brackets;
    while (true) {
      advance(leading_space_bytes(source_.substr(position_)));
      if (position_ >= source_.size()) {
        fail_at(begin_line, is_output ? "'{{' is not closed" : "'{%' is not closed");
      }
      if (open_brackets.empty()) {
        if (const std::size_t length = end_marker_length(position_, marker, !is_output)) {
          tokens_.push_back({is_output ? TokenKind::OutputEnd : TokenKind::BlockEnd, {}, line_});
          end_tag(length);
          return;
        }
      }
      read_token(open_brackets);
    }
  }

  void read_token(std::vector<char>& open_brackets) {
    const char c = source_[position_];
    if (is_name_start(c)) {
      std::size_t length = 1;
      while (is_name_part(char_at(position_ + length))) ++length;
      add(TokenKind::Name, length);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '\'' || c == '"') {
      read_string(c);
    } else {
      read_operator(open_brackets);
    }
  }

  char char_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  std::size_t digits_end(std::size_t at) const {
    while (is_digit(char_at(at)) || (char_at(at) == '_' && is_digit(char_at(at + 1)))) ++at;
    return at;
  }

  void read_number() {
    const char prefix = char_at(position_ + 1);
    if (source_[position_] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      fail_at(line_, "only decimal numbers are supported");
    }
    std::size_t end = digits_end(position_);
    bool is_float = false;
    const char previous = position_ == 0 ? '\0' : source_[position_ - 1];
    if (previous != '.') {
      if (char_at(end) == '.' && is_digit(char_at(end + 1))) {
        end = digits_end(end + 1);
        is_float = true;
      }
      if (char_at(end) == 'e' || char_at(end) == 'E') {
        const char sign = char_at(end + 1);
        const std::size_t digits = end + (sign == '+' || sign == '-' ? 2 : 1);
        if (is_digit(char_at(digits))) {
          end = digits_end(digits);
          is_float = true;
        }
      }
    }
    add(is_float ? TokenKind::Float : TokenKind::Integer, end - position_);
  }

  void read_string(char quote) {
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, "a string is not closed");
    add(TokenKind::String, end + 1 - position_);
  }

  void read_operator(std::vector<char>& open_brackets) {
    const std::string_view rest = source_.substr(position_);
    const auto op = std::find_if(kOperators.begin(), kOperators.end(),
                                 [&](std::string_view o) { return rest.substr(0, o.size()) == o; });
    if (op == kOperators.end()) fail_at(line_, "unexpected character in a tag");
    const char c = (*op)[0];
    if (c == '(' || c == '[' || c == '{') open_brackets.push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open_brackets.empty() || open_brackets.back() != open) {
        fail_at(line_, std::string("unexpected '") + c + "'");
      }
      open_brackets.pop_back();
    }
    add(TokenKind::Operator, op->size());
  }

  std::string_view source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // whether the last tag ended with a line feed, or there was none
  std::vector<Token> tokens_;
};

std::optional<std::uint32_t> hex_number(std::string_view digits, std::size_t count) {
  if (digits.size() < count) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : digits.substr(0, count)) {
    const char lower = static_cast<char>(c | 0x20);
    if (is_digit(c)) {
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<std::uint32_t>(lower - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize_template(std::string_view normalized_source) {
  return Lexer(normalized_source).run();
}

std::string decode_string_literal(const Token& token) {
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 >= body.size()) {
      out += body[i];
      continue;
    }
    const char c = body[++i];
    if (c == '\\' || c == '\'' || c == '"') {
      out += c;
    } else if (const char simple = simple_escape(c); simple != '\0') {
      out += simple;
    } else if (c >= '0' && c <= '7') {
      std::uint32_t value = 0;
      std::size_t digits = 0;
      while (digits < 3 && i + digits < body.size() && body[i + digits] >= '0' &&
             body[i + digits] <= '7') {
        value = value * 8 + static_cast<std::uint32_t>(body[i + digits] - '0');
        ++digits;
      }
      append_utf8(value, out);
      i += digits - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto value = hex_number(body.substr(i + 1), digits);
      const bool is_surrogate = value && *value >= 0xD800 && *value <= 0xDFFF;
      if (!value || *value > 0x10FFFF || is_surrogate) {
        fail_at(token.line, "a \\x, \\u or \\U escape is not a character");
      }
      append_utf8(*value, out);
      i += digits;
    } else if (c == 'N') {
      fail_at(token.line, "\\N escapes are not supported");
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace turnstile::engine
