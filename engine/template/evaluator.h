// evaluator.h: runs a parsed template once.
//
// Scopes are Jinja's: `if` makes none; a `for` turn, a macro call, a filter block and a set block
// make one; `set` writes into the innermost. A macro sees the scope in which it was defined, not
// the one from which it is called. Frames form a stack whose top is the current one; each names its
// parent, which is the frame below except for macro calls.
//
// Errors: throws TemplateFailure, which Template::render() catches. Thread: one render, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/template/ast.h"
#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

class Evaluator {
 public:
  Evaluator(const NameTable& names, RenderContext& context);

  void set_global(NameId name, Value value) { globals_[name] = std::move(value); }
  MarkedText run(const Block& block);

 private:
  enum class Flow : std::uint8_t { Normal, Break, Continue };
  class Nesting;

  struct Frame {
    std::uint32_t serial = 0;
    std::uint32_t parent = 0;
    std::vector<std::pair<NameId, Value>> variables;
  };
  struct Loop {
    std::uint32_t serial = 0;
    std::size_t index = 0;
    std::vector<Value> items;
  };

  // evaluator.cpp: statements and scopes.
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  void execute_output(const Expression& value);
  Flow execute_if(const IfStatement& statement);
  Flow execute_for(const ForStatement& statement);
  // Whether a turn came to the end of the body.
  bool execute_turns(const ForStatement& statement);
  std::vector<Value> loop_items(const ForStatement& statement);
  void execute_set(const SetStatement& statement);
  Flow execute_set_block(const SetBlockStatement& statement);
  Flow execute_filter_block(const FilterBlockStatement& statement);
  Flow capture(const Block& body, MarkedText& text);
  void append_output(const Value& value);

  const Value* find_variable(NameId name) const;
  void set_variable(NameId name, Value value);
  void assign(const std::vector<NameId>& targets, bool unpacks, const Value& value);
  void assign_attribute(NameId name, const std::string& attribute, Value value);
  void push_frame(std::uint32_t parent);
  void pop_frame();

  // expression_evaluator.cpp: expressions and calls.
  Value evaluate(const Expression& node);
  Value evaluate_variable(const Expression& node);
  Value evaluate_container(const Expression& node);
  Value evaluate_dict(const Expression& node);
  Value evaluate_attribute(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_sum(const Expression& node);
  // `first` plus the operands of a sum after the first one.
  Value add_rest(const Expression& node, Value first);
  Value evaluate_join(const Expression& node);
  Value evaluate_compare(const Expression& node);
  Value evaluate_logic(const Expression& node);
  Value evaluate_call(const Expression& node);
  Value evaluate_filter(const Expression& node);
  Value evaluate_test(const Expression& node);
  // A filter chain whose innermost input is `input`.
  Value apply_filters(const Expression& chain, const Value& input);
  Arguments evaluate_arguments(const Expression& node);
  Value call_value(const Value& callee, const Arguments& arguments);
  Value call_macro(const MacroValue& macro, const Arguments& arguments);
  void bind_parameters(const MacroStatement& macro, const Arguments& arguments);
  Value loop_attribute(const LoopValue& value, const std::string& name);
  Value call_loop_method(const LoopValue& value, const std::string& name,
                         const Arguments& arguments);
  const Loop& running_loop(const LoopValue& value) const;

  const NameTable& names_;
  RenderContext& context_;
  MarkedText* out_ = nullptr;
  std::vector<std::optional<Value>> globals_;  // by NameId: the variables of frame 0
  std::vector<Frame> frames_;
  std::uint32_t current_ = 0;  // frames_.size() - 1
  std::vector<Loop> loops_;
  std::uint32_t next_serial_ = 1;
  std::size_t depth_ = 0;
  std::size_t call_depth_ = 0;
  const Value* chain_input_ = nullptr;  // what the innermost filter of a chain without input gets
};

// Bounds the recursion of the evaluator and thereby its use of the stack.
class Evaluator::Nesting {
 public:
  explicit Nesting(Evaluator& evaluator) : depth_(evaluator.depth_) {
    if (++depth_ > RenderLimits::kMaxEvaluationDepth) {
      --depth_;
      evaluator.context_.fail("the template is nested too deeply");
    }
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  std::size_t& depth_;
};

}  // namespace turnstile::engine
