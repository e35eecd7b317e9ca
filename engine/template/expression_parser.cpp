#include "engine/template/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "engine/template/filters.h"
#include "engine/template/render_limits.h"
#include "engine/template/value_tests.h"

namespace turnstile::engine {
namespace {

std::optional<Operator> comparison(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Operator>, 6> kComparisons = {{
      {"==", Operator::Equal},
      {"!=", Operator::NotEqual},
      {"<", Operator::Less},
      {"<=", Operator::LessEqual},
      {">", Operator::Greater},
      {">=", Operator::GreaterEqual},
  }};
  for (const auto& [name, op] : kComparisons) {
    if (name == text) return op;
  }
  return std::nullopt;
}

std::string without_underscores(std::string_view digits) {
  std::string result(digits);
  result.erase(std::remove(result.begin(), result.end(), '_'), result.end());
  return result;
}

}  // namespace

// Counts how deep the parser itself is, which parentheses increase without making nodes.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > RenderLimits::kMaxExpressionDepth) {
      fail_at(parser_.tokens_.line(), "an expression is nested too deeply");
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPtr ExpressionParser::make(ExpressionKind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = tokens_.line();
  return node;
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, ExpressionPtr first) const {
  auto node = make(kind);
  node->operands.push_back(std::move(first));
  return node;
}

ExpressionPtr ExpressionParser::make_binary(Operator op, ExpressionPtr left,
                                            ExpressionPtr right) const {
  auto node = make(ExpressionKind::Binary, std::move(left));
  node->operators.push_back(op);
  node->operands.push_back(std::move(right));
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::finish(ExpressionPtr node) const {
  for (const ExpressionPtr& operand : node->operands) {
    if (operand) node->depth = std::max(node->depth, operand->depth + 1);
  }
  for (const KeywordArgument& keyword : node->keywords) {
    node->depth = std::max(node->depth, keyword.value->depth + 1);
  }
  if (node->depth > RenderLimits::kMaxExpressionDepth) {
    fail_at(node->line, "an expression is nested too deeply");
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  ExpressionPtr result = parse_or();
  while (tokens_.at_name("if")) {
    auto node = make(ExpressionKind::Conditional);
    tokens_.take();
    node->operands.push_back(parse_or());
    node->operands.push_back(std::move(result));
    node->operands.push_back(tokens_.accept_name("else") ? parse_expression() : nullptr);
    result = finish(std::move(node));
  }
  return result;
}

ExpressionPtr ExpressionParser::parse_tuple(bool allows_inline_if) {
  const auto parse_one = [&] { return allows_inline_if ? parse_expression() : parse_or(); };
  const auto at_end = [&] {
    return tokens_.at(TokenKind::OutputEnd) || tokens_.at(TokenKind::BlockEnd) ||
           tokens_.at_operator(")");
  };
  auto tuple = make(ExpressionKind::Tuple);
  bool has_comma = false;
  while (!at_end()) {
    tuple->operands.push_back(parse_one());
    if (!tokens_.accept_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma) {
    if (tuple->operands.empty()) tokens_.fail_expected("an expression");
    return std::move(tuple->operands[0]);
  }
  return finish(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (tokens_.at_name("or")) {
    auto node = make(ExpressionKind::Or, std::move(left));
    tokens_.take();
    node->operands.push_back(parse_and());
    left = finish(std::move(node));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (tokens_.at_name("and")) {
    auto node = make(ExpressionKind::And, std::move(left));
    tokens_.take();
    node->operands.push_back(parse_not());
    left = finish(std::move(node));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.at_name("not")) return parse_compare();
  const Nesting nesting(*this);
  auto node = make(ExpressionKind::Not);
  tokens_.take();
  node->operands.push_back(parse_not());
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr first = parse_sum();
  auto node = make(ExpressionKind::Compare, std::move(first));
  while (true) {
    std::optional<Operator> op;
    if (tokens_.at(TokenKind::Operator)) op = comparison(tokens_.current().text);
    if (op) {
      tokens_.take();
    } else if (tokens_.accept_name("in")) {
      op = Operator::In;
    } else if (tokens_.at_name("not") && tokens_.name_ahead("in")) {
      tokens_.take();
      tokens_.take();
      op = Operator::NotIn;
    } else {
      break;
    }
    node->operators.push_back(*op);
    node->operands.push_back(parse_sum());
  }
  if (node->operators.empty()) return std::move(node->operands[0]);
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_join();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    if (tokens_.accept_operator("-")) {
      left = make_binary(Operator::Subtract, std::move(left), parse_join());
      continue;
    }
    auto sum = make(ExpressionKind::Sum, std::move(left));
    while (tokens_.accept_operator("+")) sum->operands.push_back(parse_join());
    left = finish(std::move(sum));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_join() {
  ExpressionPtr first = parse_product();
  if (!tokens_.at_operator("~")) return first;
  auto node = make(ExpressionKind::Join, std::move(first));
  while (tokens_.accept_operator("~")) node->operands.push_back(parse_product());
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_product() {
  constexpr std::array<std::pair<std::string_view, Operator>, 4> kOperators = {{
      {"*", Operator::Multiply},
      {"/", Operator::Divide},
      {"//", Operator::FloorDivide},
      {"%", Operator::Modulo},
  }};
  ExpressionPtr left = parse_power();
  while (true) {
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](const auto& entry) {
      return tokens_.at_operator(entry.first);
    });
    if (found == kOperators.end()) return left;
    tokens_.take();
    left = make_binary(found->second, std::move(left), parse_power());
  }
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (tokens_.accept_operator("**")) {
    left = make_binary(Operator::Power, std::move(left), parse_unary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool allows_filters) {
  const Nesting nesting(*this);
  ExpressionPtr node;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const bool is_minus = tokens_.at_operator("-");
    auto sign = make(ExpressionKind::Negate);
    tokens_.take();
    node = parse_unary(false);
    if (is_minus) {
      sign->operands.push_back(std::move(node));
      node = finish(std::move(sign));
    }
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return allows_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::parse_primary() {
  switch (tokens_.current().kind) {
    case TokenKind::Name:
      return parse_name();
    case TokenKind::String:
      return parse_string();
    case TokenKind::Integer:
      return parse_integer();
    case TokenKind::Float:
      return parse_float();
    case TokenKind::Operator:
      break;
    case TokenKind::Text:
    case TokenKind::OutputBegin:
    case TokenKind::OutputEnd:
    case TokenKind::BlockBegin:
    case TokenKind::BlockEnd:
    case TokenKind::End:
      tokens_.fail_expected("an expression");
  }
  if (tokens_.at_operator("[")) return parse_list();
  if (tokens_.at_operator("{")) return parse_dict();
  if (!tokens_.accept_operator("(")) tokens_.fail_expected("an expression");
  if (tokens_.at_operator(")")) {
    auto empty = make(ExpressionKind::Tuple);
    tokens_.take();
    return empty;
  }
  ExpressionPtr inner = parse_tuple(true);
  tokens_.expect_operator(")");
  return inner;
}

ExpressionPtr ExpressionParser::parse_name() {
  auto node = make(ExpressionKind::Constant);
  const Token token = tokens_.take();
  if (token.text == "true" || token.text == "True") {
    node->constant = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    node->constant = Value::boolean(false);
  } else if (token.text == "none" || token.text == "None") {
    node->constant = Value::none();
  } else {
    node->kind = ExpressionKind::Name;
    node->name = names_.intern(token.text);
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_string() {
  auto node = make(ExpressionKind::Constant);
  std::string text;
  while (tokens_.at(TokenKind::String)) text += decode_string_literal(tokens_.take());
  node->constant = Value::text(std::move(text), Origin::Template);
  return node;
}

ExpressionPtr ExpressionParser::parse_integer() {
  auto node = make(ExpressionKind::Constant);
  const std::string digits = without_underscores(tokens_.take().text);
  std::int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec != std::errc()) fail_at(node->line, "a number does not fit 64 bits");
  node->constant = Value::integer(number);
  return node;
}

ExpressionPtr ExpressionParser::parse_float() {
  auto node = make(ExpressionKind::Constant);
  const std::string digits = without_underscores(tokens_.take().text);
  double number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec != std::errc()) fail_at(node->line, "a number is too large or too small");
  node->constant = Value::real(number);
  return node;
}

ExpressionPtr ExpressionParser::parse_list() {
  auto node = make(ExpressionKind::List);
  tokens_.expect_operator("[");
  while (!tokens_.at_operator("]")) {
    node->operands.push_back(parse_expression());
    if (!tokens_.accept_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto node = make(ExpressionKind::Dict);
  tokens_.expect_operator("{");
  while (!tokens_.at_operator("}")) {
    node->operands.push_back(parse_expression());
    tokens_.expect_operator(":");
    node->operands.push_back(parse_expression());
    if (!tokens_.accept_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.at_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (tokens_.at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.accept_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (tokens_.accept_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  auto node = make(ExpressionKind::Attribute, std::move(object));
  tokens_.expect_operator(".");
  if (tokens_.at(TokenKind::Integer)) {
    node->kind = ExpressionKind::Subscript;
    node->operands.push_back(parse_integer());
  } else {
    node->text = tokens_.expect(TokenKind::Name, "a name after '.'").text;
  }
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  auto node = make(ExpressionKind::Subscript, std::move(object));
  tokens_.expect_operator("[");
  ExpressionPtr first;
  if (!tokens_.at_operator(":")) first = parse_expression();
  node->operands.push_back(std::move(first));
  if (tokens_.at_operator(":")) {
    node->kind = ExpressionKind::Slice;
    for (int part = 0; part < 2; ++part) {
      const bool is_given =
          tokens_.accept_operator(":") && !tokens_.at_operator(":") && !tokens_.at_operator("]");
      node->operands.push_back(is_given ? parse_expression() : nullptr);
    }
  }
  tokens_.expect_operator("]");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto node = make(ExpressionKind::Call, std::move(callee));
  parse_arguments(*node);
  return finish(std::move(node));
}

void ExpressionParser::parse_arguments(Expression& call) {
  tokens_.expect_operator("(");
  while (!tokens_.at_operator(")")) {
    if (tokens_.at_operator("*") || tokens_.at_operator("**")) {
      fail_at(tokens_.line(), "arguments with * or ** are not supported");
    }
    const Token& next = tokens_.ahead();
    const bool is_keyword =
        tokens_.at(TokenKind::Name) && next.kind == TokenKind::Operator && next.text == "=";
    if (is_keyword) {
      KeywordArgument keyword;
      keyword.name = tokens_.take().text;
      tokens_.take();
      keyword.value = parse_expression();
      call.keywords.push_back(std::move(keyword));
    } else if (!call.keywords.empty()) {
      fail_at(tokens_.line(), "a positional argument follows a named one");
    } else {
      call.operands.push_back(parse_expression());
    }
    if (!tokens_.accept_operator(",")) break;
  }
  tokens_.expect_operator(")");
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  auto node = make(ExpressionKind::Filter, std::move(input));
  node->text = tokens_.expect(TokenKind::Name, "the name of a filter").text;
  node->filter = find_filter(node->text);
  if (tokens_.at_operator("(")) parse_arguments(*node);
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_filter_chain() {
  ExpressionPtr node = parse_filter(nullptr);
  while (tokens_.accept_operator("|")) node = parse_filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  const bool is_negated = tokens_.accept_name("not");
  auto node = make(ExpressionKind::Test, std::move(input));
  node->text = tokens_.expect(TokenKind::Name, "the name of a test").text;
  node->test = find_test(node->text);
  const bool at_word = tokens_.at(TokenKind::Name) && !tokens_.at_name("else") &&
                       !tokens_.at_name("or") && !tokens_.at_name("and") &&
                       !tokens_.at_name("if") && !tokens_.at_name("is") && !tokens_.at_name("in") &&
                       !tokens_.at_name("not");
  if (tokens_.at_operator("(")) {
    parse_arguments(*node);
  } else if (at_word || tokens_.at(TokenKind::String) || tokens_.at(TokenKind::Integer) ||
             tokens_.at(TokenKind::Float) || tokens_.at_operator("[") || tokens_.at_operator("{")) {
    node->operands.push_back(parse_postfix(parse_primary()));
  }
  if (tokens_.at_name("is")) fail_at(node->line, "tests cannot be chained");
  node = finish(std::move(node));
  if (!is_negated) return node;
  return finish(make(ExpressionKind::Not, std::move(node)));
}

}  // namespace turnstile::engine
