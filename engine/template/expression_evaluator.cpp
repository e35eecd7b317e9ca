#include <algorithm>
#include <cassert>

#include "engine/template/builtin_functions.h"
#include "engine/template/evaluator.h"
#include "engine/template/filters.h"
#include "engine/template/methods.h"
#include "engine/template/operators.h"
#include "engine/template/value_tests.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {

Value Evaluator::evaluate(const Expression& node) {
  const Nesting nesting(*this);
  context_.spend(1);
  context_.set_line(node.line);
  switch (node.kind) {
    case ExpressionKind::Constant:
      return node.constant;
    case ExpressionKind::Name:
      return evaluate_variable(node);
    case ExpressionKind::List:
    case ExpressionKind::Tuple:
      return evaluate_container(node);
    case ExpressionKind::Dict:
      return evaluate_dict(node);
    case ExpressionKind::Attribute:
      return evaluate_attribute(node);
    case ExpressionKind::Subscript: {
      const Value object = evaluate(*node.operands[0]);
      const Value key = evaluate(*node.operands[1]);
      context_.set_line(node.line);
      const LoopValue* loop = object.as_loop();
      if (loop != nullptr && key.is_text()) return loop_attribute(*loop, key.as_text()->text());
      return item_of(context_, object, key);
    }
    case ExpressionKind::Slice:
      return evaluate_slice(node);
    case ExpressionKind::Call:
      return evaluate_call(node);
    case ExpressionKind::Filter:
      return evaluate_filter(node);
    case ExpressionKind::Test:
      return evaluate_test(node);
    case ExpressionKind::Sum:
      return evaluate_sum(node);
    case ExpressionKind::Join:
      return evaluate_join(node);
    case ExpressionKind::Binary: {
      const Value left = evaluate(*node.operands[0]);
      const Value right = evaluate(*node.operands[1]);
      context_.set_line(node.line);
      return apply_binary(context_, node.operators[0], left, right);
    }
    case ExpressionKind::Compare:
      return evaluate_compare(node);
    case ExpressionKind::And:
    case ExpressionKind::Or:
    case ExpressionKind::Not:
    case ExpressionKind::Conditional:
      return evaluate_logic(node);
    case ExpressionKind::Negate: {
      const Value value = evaluate(*node.operands[0]);
      context_.set_line(node.line);
      return negate(context_, value);
    }
  }
  assert(false && "every kind of expression is handled");
  return Value();
}

Value Evaluator::evaluate_variable(const Expression& node) {
  const Value* value = find_variable(node.name);
  return value == nullptr ? Value::undefined(&names_.text(node.name)) : *value;
}

Value Evaluator::evaluate_container(const Expression& node) {
  std::vector<Value> items;
  items.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) items.push_back(evaluate(*operand));
  context_.set_line(node.line);
  return node.kind == ExpressionKind::Tuple ? context_.make_tuple(std::move(items))
                                            : context_.make_list(std::move(items));
}

Value Evaluator::evaluate_dict(const Expression& node) {
  Value result = Value::dict({});
  for (std::size_t i = 0; i < node.operands.size(); i += 2) {
    const Value key = evaluate(*node.operands[i]);
    Value value = evaluate(*node.operands[i + 1]);
    context_.set_line(node.line);
    if (!key.is_text() && !key.is_number() && !key.is_none()) {
      context_.fail("a " + std::string(key.type_name()) + " cannot be a key");
    }
    context_.check_item(value);
    context_.spend(i / 32);
    result.as_dict()->set(key, std::move(value));
  }
  return result;
}

Value Evaluator::evaluate_attribute(const Expression& node) {
  const Value object = evaluate(*node.operands[0]);
  context_.set_line(node.line);
  if (const LoopValue* loop = object.as_loop()) return loop_attribute(*loop, node.text);
  return attribute_of(context_, object, node.text);
}

Value Evaluator::evaluate_slice(const Expression& node) {
  Value parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (node.operands[i]) parts[i] = evaluate(*node.operands[i]);
  }
  context_.set_line(node.line);
  return slice_of(context_, parts[0], parts[1], parts[2], parts[3]);
}

Value Evaluator::evaluate_sum(const Expression& node) {
  return add_rest(node, evaluate(*node.operands[0]));
}

Value Evaluator::add_rest(const Expression& node, Value first) {
  std::size_t next = 1;
  if (const MarkedText* text = first.as_text()) {
    // Texts are collected in one buffer: a long sum must not copy its start again and again.
    MarkedText sum = *text;
    Value value;
    for (; next < node.operands.size(); ++next) {
      value = evaluate(*node.operands[next]);
      const MarkedText* part = value.as_text();
      if (part == nullptr) break;
      context_.spend_bytes(part->size());
      context_.check_text_size(sum.size() + part->size());
      sum.append(*part);
    }
    context_.set_line(node.line);
    first = context_.make_text(std::move(sum));
    if (next < node.operands.size()) add(context_, first, value);  // fails and says why
  }
  for (; next < node.operands.size(); ++next) {
    const Value value = evaluate(*node.operands[next]);
    context_.set_line(node.line);
    first = add(context_, first, value);
  }
  return first;
}

Value Evaluator::evaluate_join(const Expression& node) {
  MarkedText text;
  for (const ExpressionPtr& operand : node.operands) {
    append_str(context_, evaluate(*operand), text);
  }
  return Value::text(std::move(text));
}

Value Evaluator::evaluate_compare(const Expression& node) {
  Value left = evaluate(*node.operands[0]);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.operands[i + 1]);
    context_.set_line(node.line);
    if (!compare(context_, node.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

// `and` and `or` give one of their operands, as in Python.
Value Evaluator::evaluate_logic(const Expression& node) {
  Value first = evaluate(*node.operands[0]);
  switch (node.kind) {
    case ExpressionKind::And:
      return first.is_true() ? evaluate(*node.operands[1]) : first;
    case ExpressionKind::Or:
      return first.is_true() ? first : evaluate(*node.operands[1]);
    case ExpressionKind::Not:
      return Value::boolean(!first.is_true());
    default:
      break;
  }
  if (first.is_true()) return evaluate(*node.operands[1]);
  return node.operands[2] ? evaluate(*node.operands[2]) : Value();
}

Arguments Evaluator::evaluate_arguments(const Expression& node) {
  Arguments arguments;
  arguments.positional.reserve(node.operands.size() - 1);
  for (std::size_t i = 1; i < node.operands.size(); ++i) {
    arguments.positional.push_back(evaluate(*node.operands[i]));
  }
  for (const KeywordArgument& keyword : node.keywords) {
    arguments.named.emplace_back(keyword.name, evaluate(*keyword.value));
  }
  context_.set_line(node.line);
  return arguments;
}

Value Evaluator::evaluate_call(const Expression& node) {
  const Expression& callee = *node.operands[0];
  if (callee.kind != ExpressionKind::Attribute) {
    const Value function = evaluate(callee);
    const Arguments arguments = evaluate_arguments(node);
    return call_value(function, arguments);
  }
  const Value object = evaluate(*callee.operands[0]);
  context_.set_line(callee.line);
  if (const LoopValue* loop = object.as_loop()) {
    return call_loop_method(*loop, callee.text, evaluate_arguments(node));
  }
  // Method or not: a name that is neither fails before its arguments are looked at.
  const Value attribute = attribute_of(context_, object, callee.text);
  const Arguments arguments = evaluate_arguments(node);
  const BuiltinFunction* function = attribute.as_function();
  if (function != nullptr && *function == BuiltinFunction::Method) {
    return call_method(context_, object, callee.text, arguments);
  }
  if (attribute.is_undefined()) {
    context_.fail("a " + std::string(object.type_name()) + " has no method '" + callee.text +
                  "' that is supported");
  }
  return call_value(attribute, arguments);
}

Value Evaluator::call_value(const Value& callee, const Arguments& arguments) {
  if (const MacroValue* macro = callee.as_macro()) return call_macro(*macro, arguments);
  if (const BuiltinFunction* function = callee.as_function()) {
    return call_builtin(context_, *function, arguments);
  }
  if (const Undefined* undefined = callee.as_undefined()) {
    context_.fail(undefined->name == nullptr ? "an undefined value is called"
                                             : "'" + *undefined->name + "' is undefined");
  }
  context_.fail("a " + std::string(callee.type_name()) + " cannot be called");
}

Value Evaluator::call_macro(const MacroValue& value, const Arguments& arguments) {
  const MacroStatement& macro = *value.macro;
  const bool is_alive =
      value.frame_index < frames_.size() && frames_[value.frame_index].serial == value.frame_serial;
  if (!is_alive) {
    context_.fail("macro '" + names_.text(macro.name) + "' is called outside of its scope");
  }
  if (call_depth_ == RenderLimits::kMaxCallDepth) {
    context_.fail("macros call each other more than " +
                  std::to_string(RenderLimits::kMaxCallDepth) + " deep");
  }
  ++call_depth_;
  MarkedText text;
  MarkedText* const outer = std::exchange(out_, &text);
  push_frame(value.frame_index);
  bind_parameters(macro, arguments);
  execute(macro.body);
  pop_frame();
  out_ = outer;
  --call_depth_;
  return Value::text(std::move(text));
}

void Evaluator::bind_parameters(const MacroStatement& macro, const Arguments& arguments) {
  const std::string& name = names_.text(macro.name);
  if (arguments.positional.size() > macro.parameters.size()) {
    context_.fail("macro '" + name + "' takes at most " + std::to_string(macro.parameters.size()) +
                  " arguments");
  }
  std::size_t used = 0;
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroStatement::Parameter& parameter = macro.parameters[i];
    const std::string& parameter_name = names_.text(parameter.name);
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& argument) { return argument.first == parameter_name; });
    if (i < arguments.positional.size()) {
      set_variable(parameter.name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      set_variable(parameter.name, named->second);
      ++used;
    } else if (parameter.fallback) {
      set_variable(parameter.name, evaluate(*parameter.fallback));
    } else {
      set_variable(parameter.name, Value::undefined(&parameter_name));
    }
  }
  if (used != arguments.named.size()) {
    context_.fail("macro '" + name + "' got a named argument that it does not have or has already");
  }
}

Value Evaluator::evaluate_filter(const Expression& node) {
  const Value input = node.operands[0] ? evaluate(*node.operands[0]) : *chain_input_;
  const Arguments arguments = evaluate_arguments(node);
  if (node.filter == nullptr) context_.fail("there is no filter '" + node.text + "'");
  return node.filter->apply(context_, input, arguments);
}

Value Evaluator::apply_filters(const Expression& chain, const Value& input) {
  const Value* const outer = std::exchange(chain_input_, &input);
  Value result = evaluate(chain);
  chain_input_ = outer;
  return result;
}

Value Evaluator::evaluate_test(const Expression& node) {
  const Value input = evaluate(*node.operands[0]);
  const Arguments arguments = evaluate_arguments(node);
  if (node.test == nullptr) context_.fail("there is no test '" + node.text + "'");
  return Value::boolean(node.test->holds(context_, input, arguments));
}

const Evaluator::Loop& Evaluator::running_loop(const LoopValue& value) const {
  if (value.loop_index >= loops_.size() || loops_[value.loop_index].serial != value.loop_serial) {
    context_.fail("'loop' is used after its loop has ended");
  }
  return loops_[value.loop_index];
}

Value Evaluator::loop_attribute(const LoopValue& value, const std::string& name) {
  const Loop& loop = running_loop(value);
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto count = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == count);
  if (name == "length") return Value::integer(count);
  if (name == "revindex") return Value::integer(count - index);
  if (name == "revindex0") return Value::integer(count - index - 1);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem" && index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && index + 1 < count) return loop.items[loop.index + 1];
  if (name == "cycle" || name == "changed") return Value::function(BuiltinFunction::Method);
  return Value::undefined(&name);
}

Value Evaluator::call_loop_method(const LoopValue& value, const std::string& name,
                                  const Arguments& arguments) {
  const Loop& loop = running_loop(value);
  if (name != "cycle") context_.fail("loop." + name + "() is not supported");
  if (arguments.positional.empty()) context_.fail("loop.cycle() needs values");
  return arguments.positional[loop.index % arguments.positional.size()];
}

}  // namespace turnstile::engine
