// expression_parser.h: expressions of a template, by recursive descent.
//
// Lowest to highest: inline if, or, and, not, comparisons with in, + and -, ~, * / // %, **, unary
// minus, then subscripts, attributes, calls, filters and tests. `~` binds closer than `+`, a
// filter closer than anything but a unary minus: -1|abs is (-1)|abs. Both are Jinja's.
//
// Errors: throws TemplateFailure, also when nodes nest deeper than RenderLimits allow.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/template/ast.h"
#include "engine/template/token_stream.h"

namespace turnstile::engine {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, NameTable& names) : tokens_(tokens), names_(names) {}

  ExpressionPtr parse_expression();
  // One expression, or several with commas between them as a tuple.
  ExpressionPtr parse_tuple(bool allows_inline_if);
  // name(arguments)|name... for a filter block; the innermost input is null.
  ExpressionPtr parse_filter_chain();

 private:
  class Nesting;

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_join();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool allows_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_integer();
  ExpressionPtr parse_float();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr node);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  void parse_arguments(Expression& call);

  ExpressionPtr make(ExpressionKind kind) const;
  ExpressionPtr make(ExpressionKind kind, ExpressionPtr first) const;
  ExpressionPtr make_binary(Operator op, ExpressionPtr left, ExpressionPtr right) const;
  // Sets the depth of a node whose parts are in place.
  ExpressionPtr finish(ExpressionPtr node) const;

  TokenStream& tokens_;
  NameTable& names_;
  std::uint32_t nesting_ = 0;
};

}  // namespace turnstile::engine
