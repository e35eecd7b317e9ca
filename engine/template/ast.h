// ast.h: a parsed template.
//
// Names of variables are numbers into a NameTable, so that a variable is found without comparing
// strings. Filters and tests stay names until they run: as in Jinja, one that is unknown but never
// reached is no error.
//
// Thread: immutable after parsing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/template/value.h"

namespace turnstile::engine {

using NameId = std::uint32_t;

class NameTable {
 public:
  NameId intern(std::string_view name);
  // nullptr if the template does not mention it.
  const NameId* find(std::string_view name) const;
  const std::string& text(NameId id) const { return names_[id]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::deque<std::string> names_;  // a deque keeps addresses, to which undefined values point
  std::unordered_map<std::string_view, NameId> ids_;
};

struct FilterFunction;
struct TestFunction;

enum class ExpressionKind : std::uint8_t {
  Constant,     // constant
  Name,         // name
  List,         // operands
  Tuple,        // operands
  Dict,         // operands: key, value, key, value, ...
  Attribute,    // operands[0] . text
  Subscript,    // operands[0] [ operands[1] ]
  Slice,        // operands[0] [ operands[1] : operands[2] : operands[3] ], each may be null
  Call,         // operands[0] ( operands[1..], keywords )
  Filter,       // operands[0] | text ( operands[1..], keywords ); in a filter block [0] is null
  Test,         // operands[0] is text ( operands[1..], keywords )
  Sum,          // operands[0] + operands[1] + ..., from the left
  Join,         // operands[0] ~ operands[1] ~ ...
  Binary,       // operands[0] operators[0] operands[1]
  Compare,      // operands[0] operators[0] operands[1] operators[1] operands[2] ...
  And,          // operands[0] and operands[1]
  Or,           // operands[0] or operands[1]
  Not,          // not operands[0]
  Negate,       // - operands[0]
  Conditional,  // operands[1] if operands[0] else operands[2], which may be null
};

enum class Operator : std::uint8_t {
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Modulo,
  Power,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  In,
  NotIn,
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct KeywordArgument {
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::Constant;
  int line = 0;
  std::uint32_t depth = 1;  // nodes on the longest way down
  NameId name = 0;
  Value constant;
  std::string text;
  const FilterFunction* filter = nullptr;  // nullptr if there is none of the name `text`
  const TestFunction* test = nullptr;
  std::vector<Operator> operators;
  std::vector<ExpressionPtr> operands;
  std::vector<KeywordArgument> keywords;
};

enum class StatementKind : std::uint8_t {
  Text,
  Output,
  If,
  For,
  Set,
  SetBlock,
  Macro,
  FilterBlock,
  Break,
  Continue,
};

struct Statement {
  Statement(StatementKind kind_of, int line_of) : kind(kind_of), line(line_of) {}
  virtual ~Statement() = default;
  const StatementKind kind;
  const int line;
};

using Block = std::vector<std::unique_ptr<Statement>>;

struct TextStatement : Statement {
  explicit TextStatement(int line_of) : Statement(StatementKind::Text, line_of) {}
  std::string text;
};

struct OutputStatement : Statement {
  explicit OutputStatement(int line_of) : Statement(StatementKind::Output, line_of) {}
  ExpressionPtr value;
};

struct IfStatement : Statement {
  explicit IfStatement(int line_of) : Statement(StatementKind::If, line_of) {}
  struct Branch {
    ExpressionPtr condition;  // null: else
    Block body;
  };
  std::vector<Branch> branches;
};

struct ForStatement : Statement {
  explicit ForStatement(int line_of) : Statement(StatementKind::For, line_of) {}
  std::vector<NameId> targets;  // more than one: each item is unpacked
  bool unpacks = false;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // null if there is none
  Block body;
  Block otherwise;  // when no turn came to its end
  NameId loop_name = 0;
};

struct SetStatement : Statement {
  explicit SetStatement(int line_of) : Statement(StatementKind::Set, line_of) {}
  std::vector<NameId> targets;
  bool unpacks = false;
  std::string attribute;  // not empty: targets[0].attribute, of a namespace
  ExpressionPtr value;
};

// {% set x %}...{% endset %}: the text of the body, through the filters.
struct SetBlockStatement : Statement {
  explicit SetBlockStatement(int line_of) : Statement(StatementKind::SetBlock, line_of) {}
  NameId target = 0;
  std::string attribute;
  ExpressionPtr filters;  // null if there are none; else a chain whose innermost input is null
  Block body;
};

struct MacroStatement : Statement {
  explicit MacroStatement(int line_of) : Statement(StatementKind::Macro, line_of) {}
  struct Parameter {
    NameId name = 0;
    ExpressionPtr fallback;  // null: undefined
  };
  NameId name = 0;
  std::vector<Parameter> parameters;
  Block body;
};

struct FilterBlockStatement : Statement {
  explicit FilterBlockStatement(int line_of) : Statement(StatementKind::FilterBlock, line_of) {}
  ExpressionPtr filters;
  Block body;
};

}  // namespace turnstile::engine
