// token_stream.h: the parsers' position in the tokens of a template.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/template/lexer.h"
#include "engine/template/template_failure.h"

namespace turnstile::engine {

class TokenStream {
 public:
  // `tokens` ends with End; reading stays there.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[index_]; }
  const Token& ahead() const {
    return index_ + 1 < tokens_.size() ? tokens_[index_ + 1] : tokens_.back();
  }
  int line() const { return current().line; }

  Token take() {
    const Token token = current();
    if (index_ + 1 < tokens_.size()) ++index_;
    return token;
  }

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_operator(std::string_view text) const { return is(current(), TokenKind::Operator, text); }
  bool at_name(std::string_view text) const { return is(current(), TokenKind::Name, text); }
  bool name_ahead(std::string_view text) const { return is(ahead(), TokenKind::Name, text); }

  bool accept_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    take();
    return true;
  }
  bool accept_name(std::string_view text) {
    if (!at_name(text)) return false;
    take();
    return true;
  }

  void expect_operator(std::string_view text) {
    if (!accept_operator(text)) fail_expected("'" + std::string(text) + "'");
  }
  void expect_name(std::string_view text) {
    if (!accept_name(text)) fail_expected("'" + std::string(text) + "'");
  }
  Token expect(TokenKind kind, std::string_view what) {
    if (!at(kind)) fail_expected(what);
    return take();
  }

  [[noreturn]] void fail_expected(std::string_view what) const {
    fail_at(line(), "expected " + std::string(what) + ", found " + describe(current()));
  }

 private:
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }

  static std::string describe(const Token& token) {
    constexpr std::size_t kMaxShownBytes = 40;
    switch (token.kind) {
      case TokenKind::End:
        return "the end of the template";
      case TokenKind::BlockEnd:
        return "'%}'";
      case TokenKind::OutputEnd:
        return "'}}'";
      case TokenKind::BlockBegin:
        return "'{%'";
      case TokenKind::OutputBegin:
        return "'{{'";
      case TokenKind::Text:
        return "text";
      case TokenKind::Name:
      case TokenKind::String:
      case TokenKind::Integer:
      case TokenKind::Float:
      case TokenKind::Operator:
        return "'" + std::string(token.text.substr(0, kMaxShownBytes)) + "'";
    }
    return "nothing";
  }

  std::vector<Token> tokens_;
  std::size_t index_ = 0;
};

}  // namespace turnstile::engine
