#include "engine/template/parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "engine/template/expression_parser.h"
#include "engine/template/render_limits.h"
#include "engine/template/token_stream.h"

namespace turnstile::engine {
namespace {

class StatementParser {
 public:
  StatementParser(std::string_view source, NameTable& names)
      : tokens_(tokenize_template(source)), names_(names), expressions_(tokens_, names) {}

  Block run() {
    Block block = parse_block({});
    if (!tokens_.at(TokenKind::End)) tokens_.fail_expected("the end of the template");
    return block;
  }

 private:
  // Reads until a statement of one of these names, whose name is then current (its '{%' is taken),
  // or until the end.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    if (++nesting_ > RenderLimits::kMaxStatementDepth) {
      fail_at(tokens_.line(), "statements are nested too deeply");
    }
    Block block;
    while (!tokens_.at(TokenKind::End)) {
      if (tokens_.at(TokenKind::Text)) {
        auto text = std::make_unique<TextStatement>(tokens_.line());
        text->text = tokens_.take().text;
        block.push_back(std::move(text));
      } else if (tokens_.at(TokenKind::OutputBegin)) {
        auto output = std::make_unique<OutputStatement>(tokens_.take().line);
        output->value = expressions_.parse_tuple(true);
        tokens_.expect(TokenKind::OutputEnd, "'}}'");
        block.push_back(std::move(output));
      } else {
        tokens_.expect(TokenKind::BlockBegin, "'{%'");
        if (!tokens_.at(TokenKind::Name)) tokens_.fail_expected("the name of a statement");
        if (std::find(ends.begin(), ends.end(), tokens_.current().text) != ends.end()) break;
        parse_statement(block);
      }
    }
    --nesting_;
    return block;
  }

  void end_tag() { tokens_.expect(TokenKind::BlockEnd, "'%}'"); }

  // The end statement of a block that began at `line`.
  void expect_end(std::string_view name, int line) {
    if (tokens_.at(TokenKind::End)) {
      fail_at(line, "'{% " + std::string(name) + " %}' is missing");
    }
    tokens_.expect_name(name);
    end_tag();
  }

  void parse_statement(Block& block) {
    const Token name = tokens_.take();
    if (name.text == "if") {
      block.push_back(parse_if(name.line));
    } else if (name.text == "for") {
      block.push_back(parse_for(name.line));
    } else if (name.text == "set") {
      block.push_back(parse_set(name.line));
    } else if (name.text == "macro") {
      block.push_back(parse_macro(name.line));
    } else if (name.text == "filter") {
      block.push_back(parse_filter_block(name.line));
    } else if (name.text == "generation") {
      end_tag();
      Block body = parse_block({"endgeneration"});
      expect_end("endgeneration", name.line);
      std::move(body.begin(), body.end(), std::back_inserter(block));
    } else if (name.text == "break" || name.text == "continue") {
      if (loop_depth_ == 0) {
        fail_at(name.line, "'" + std::string(name.text) + "' outside a loop");
      }
      end_tag();
      const auto kind = name.text == "break" ? StatementKind::Break : StatementKind::Continue;
      block.push_back(std::make_unique<Statement>(kind, name.line));
    } else {
      fail_at(name.line, "the statement '" + std::string(name.text.substr(0, 40)) +
                             "' is unknown, not supported, or out of place");
    }
  }

  std::unique_ptr<Statement> parse_if(int line) {
    auto statement = std::make_unique<IfStatement>(line);
    bool has_condition = true;
    while (true) {
      IfStatement::Branch branch;
      if (has_condition) branch.condition = expressions_.parse_tuple(false);
      end_tag();
      branch.body = has_condition ? parse_block({"elif", "else", "endif"}) : parse_block({"endif"});
      statement->branches.push_back(std::move(branch));
      if (has_condition && tokens_.accept_name("elif")) continue;
      if (has_condition && tokens_.accept_name("else")) {
        has_condition = false;
        continue;
      }
      expect_end("endif", line);
      return statement;
    }
  }

  NameId parse_variable() {
    const Token token = tokens_.expect(TokenKind::Name, "the name of a variable");
    constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), token.text) !=
        std::end(kConstants)) {
      fail_at(token.line, "cannot assign to '" + std::string(token.text) + "'");
    }
    return names_.intern(token.text);
  }

  // a | a, b | (a, b). Returns whether values are unpacked.
  bool parse_targets(std::vector<NameId>& targets) {
    const bool has_parenthesis = tokens_.accept_operator("(");
    bool has_comma = false;
    do {
      targets.push_back(parse_variable());
      if (!tokens_.accept_operator(",")) break;
      has_comma = true;
    } while (tokens_.at(TokenKind::Name) && !tokens_.at_name("in"));
    if (has_parenthesis) tokens_.expect_operator(")");
    return has_comma;
  }

  std::unique_ptr<Statement> parse_for(int line) {
    auto statement = std::make_unique<ForStatement>(line);
    statement->unpacks = parse_targets(statement->targets);
    tokens_.expect_name("in");
    statement->iterable = expressions_.parse_tuple(false);
    if (tokens_.accept_name("if")) statement->condition = expressions_.parse_expression();
    if (tokens_.at_name("recursive")) fail_at(line, "recursive loops are not supported");
    end_tag();
    statement->loop_name = names_.intern("loop");
    ++loop_depth_;
    statement->body = parse_block({"else", "endfor"});
    --loop_depth_;
    if (tokens_.accept_name("else")) {
      end_tag();
      statement->otherwise = parse_block({"endfor"});
    }
    expect_end("endfor", line);
    return statement;
  }

  std::unique_ptr<Statement> parse_set(int line) {
    std::vector<NameId> targets;
    const bool unpacks = parse_targets(targets);
    std::string attribute;
    if (!unpacks && tokens_.accept_operator(".")) {
      attribute = tokens_.expect(TokenKind::Name, "the name of an attribute").text;
    }
    if (tokens_.accept_operator("=")) {
      auto statement = std::make_unique<SetStatement>(line);
      statement->targets = std::move(targets);
      statement->unpacks = unpacks;
      statement->attribute = std::move(attribute);
      statement->value = expressions_.parse_tuple(true);
      end_tag();
      return statement;
    }
    if (unpacks) tokens_.fail_expected("'='");
    auto statement = std::make_unique<SetBlockStatement>(line);
    statement->target = targets[0];
    statement->attribute = std::move(attribute);
    if (tokens_.accept_operator("|")) statement->filters = expressions_.parse_filter_chain();
    end_tag();
    statement->body = parse_block({"endset"});
    expect_end("endset", line);
    return statement;
  }

  std::unique_ptr<Statement> parse_macro(int line) {
    auto statement = std::make_unique<MacroStatement>(line);
    statement->name = parse_variable();
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      MacroStatement::Parameter parameter;
      parameter.name = parse_variable();
      if (tokens_.accept_operator("=")) {
        parameter.fallback = expressions_.parse_expression();
      } else if (!statement->parameters.empty() && statement->parameters.back().fallback) {
        fail_at(line, "a macro parameter without default follows one with a default");
      }
      statement->parameters.push_back(std::move(parameter));
      if (!tokens_.accept_operator(",")) break;
    }
    tokens_.expect_operator(")");
    end_tag();
    const int outer_loops = std::exchange(loop_depth_, 0);
    statement->body = parse_block({"endmacro"});
    loop_depth_ = outer_loops;
    if (tokens_.at_name("endmacro") && tokens_.ahead().kind == TokenKind::Name) {
      const Token end = tokens_.take();
      if (names_.intern(tokens_.take().text) != statement->name) {
        fail_at(end.line, "'endmacro' names another macro");
      }
      end_tag();
      return statement;
    }
    expect_end("endmacro", line);
    return statement;
  }

  std::unique_ptr<Statement> parse_filter_block(int line) {
    auto statement = std::make_unique<FilterBlockStatement>(line);
    statement->filters = expressions_.parse_filter_chain();
    end_tag();
    statement->body = parse_block({"endfilter"});
    expect_end("endfilter", line);
    return statement;
  }

  TokenStream tokens_;
  NameTable& names_;
  ExpressionParser expressions_;
  std::uint32_t nesting_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

Block parse_template(std::string_view normalized_source, NameTable& names) {
  return StatementParser(normalized_source, names).run();
}

}  // namespace turnstile::engine
