#include "engine/template/evaluator.h"

#include "engine/template/builtin_functions.h"
#include "engine/template/operators.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {

Evaluator::Evaluator(const NameTable& names, RenderContext& context)
    : names_(names), context_(context), globals_(names.size()) {
  for (const NamedFunction& named : kBuiltinFunctions) {
    if (const NameId* id = names.find(named.name)) globals_[*id] = Value::function(named.function);
  }
  frames_.emplace_back();
}

MarkedText Evaluator::run(const Block& block) {
  MarkedText text;
  out_ = &text;
  execute(block);
  return text;
}

void Evaluator::push_frame(std::uint32_t parent) {
  Frame frame;
  frame.serial = next_serial_++;
  frame.parent = parent;
  frames_.push_back(std::move(frame));
  current_ = static_cast<std::uint32_t>(frames_.size() - 1);
}

void Evaluator::pop_frame() {
  frames_.pop_back();
  current_ = static_cast<std::uint32_t>(frames_.size() - 1);
}

const Value* Evaluator::find_variable(NameId name) const {
  for (std::uint32_t frame = current_; frame != 0; frame = frames_[frame].parent) {
    for (const auto& [id, value] : frames_[frame].variables) {
      if (id == name) return &value;
    }
  }
  return globals_[name] ? &*globals_[name] : nullptr;
}

void Evaluator::set_variable(NameId name, Value value) {
  if (current_ == 0) {
    globals_[name] = std::move(value);
    return;
  }
  for (auto& [id, old] : frames_[current_].variables) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  frames_[current_].variables.emplace_back(name, std::move(value));
}

void Evaluator::assign(const std::vector<NameId>& targets, bool unpacks, const Value& value) {
  if (!unpacks) {
    set_variable(targets[0], value);
    return;
  }
  std::vector<Value> parts = items_of(context_, value);
  if (parts.size() != targets.size()) {
    context_.fail(std::to_string(parts.size()) + " values for " + std::to_string(targets.size()) +
                  " names");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) set_variable(targets[i], std::move(parts[i]));
}

void Evaluator::assign_attribute(NameId name, const std::string& attribute, Value value) {
  const Value* object = find_variable(name);
  NamespaceValue* target = object == nullptr ? nullptr : object->as_namespace();
  if (target == nullptr) {
    context_.fail("'" + names_.text(name) + "' is not a namespace, so '" + attribute +
                  "' of it cannot be set");
  }
  set_attribute(context_, *target, attribute, std::move(value));
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  for (const auto& statement : block) {
    if (const Flow flow = execute(*statement); flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  const Nesting nesting(*this);
  context_.set_line(statement.line);
  context_.spend(1);
  switch (statement.kind) {
    case StatementKind::Text: {
      const std::string& text = static_cast<const TextStatement&>(statement).text;
      context_.spend_bytes(text.size());
      out_->append(text, Origin::Template);
      context_.check_text_size(out_->size());
      return Flow::Normal;
    }
    case StatementKind::Output:
      execute_output(*static_cast<const OutputStatement&>(statement).value);
      return Flow::Normal;
    case StatementKind::If:
      return execute_if(static_cast<const IfStatement&>(statement));
    case StatementKind::For:
      return execute_for(static_cast<const ForStatement&>(statement));
    case StatementKind::Set:
      execute_set(static_cast<const SetStatement&>(statement));
      return Flow::Normal;
    case StatementKind::SetBlock:
      return execute_set_block(static_cast<const SetBlockStatement&>(statement));
    case StatementKind::Macro: {
      const auto& macro = static_cast<const MacroStatement&>(statement);
      set_variable(macro.name, Value::macro({&macro, current_, frames_[current_].serial}));
      return Flow::Normal;
    }
    case StatementKind::FilterBlock:
      return execute_filter_block(static_cast<const FilterBlockStatement&>(statement));
    case StatementKind::Break:
      return Flow::Break;
    case StatementKind::Continue:
      return Flow::Continue;
  }
  return Flow::Normal;
}

// A sum of texts goes straight to the output instead of being put together first.
void Evaluator::execute_output(const Expression& value) {
  if (value.kind != ExpressionKind::Sum) {
    append_output(evaluate(value));
    return;
  }
  Value first = evaluate(*value.operands[0]);
  if (!first.is_text()) {
    append_output(add_rest(value, std::move(first)));
    return;
  }
  append_output(first);
  for (std::size_t i = 1; i < value.operands.size(); ++i) {
    const Value next = evaluate(*value.operands[i]);
    context_.set_line(value.line);
    append_output(next.is_text() ? next : add(context_, first, next));
  }
}

void Evaluator::append_output(const Value& value) { append_str(context_, value, *out_); }

Evaluator::Flow Evaluator::execute_if(const IfStatement& statement) {
  for (const IfStatement::Branch& branch : statement.branches) {
    if (!branch.condition || evaluate(*branch.condition).is_true()) return execute(branch.body);
  }
  return Flow::Normal;
}

std::vector<Value> Evaluator::loop_items(const ForStatement& statement) {
  const Value iterable = evaluate(*statement.iterable);
  context_.set_line(statement.line);
  std::vector<Value> items = items_of(context_, iterable);
  if (!statement.condition) return items;
  std::vector<Value> kept;
  push_frame(current_);
  for (Value& item : items) {
    frames_[current_].variables.clear();
    assign(statement.targets, statement.unpacks, item);
    if (evaluate(*statement.condition).is_true()) kept.push_back(std::move(item));
  }
  pop_frame();
  return kept;
}

Evaluator::Flow Evaluator::execute_for(const ForStatement& statement) {
  Loop loop;
  loop.items = loop_items(statement);
  loop.serial = next_serial_++;
  loops_.push_back(std::move(loop));
  push_frame(current_);
  const bool has_finished_turn = execute_turns(statement);
  pop_frame();
  loops_.pop_back();
  // Jinja's rule: `else` also runs when every turn ended in a break or continue.
  if (has_finished_turn || statement.otherwise.empty()) return Flow::Normal;
  push_frame(current_);
  const Flow flow = execute(statement.otherwise);
  pop_frame();
  return flow;
}

bool Evaluator::execute_turns(const ForStatement& statement) {
  const std::size_t loop_index = loops_.size() - 1;
  const LoopValue self{static_cast<std::uint32_t>(loop_index), loops_[loop_index].serial};
  const std::size_t count = loops_[loop_index].items.size();
  bool has_finished_turn = false;
  for (std::size_t i = 0; i < count; ++i) {
    context_.spend(1);
    loops_[loop_index].index = i;
    // A new turn is a new scope: what the last one set is gone, and so are its macros.
    frames_[current_].serial = next_serial_++;
    frames_[current_].variables.clear();
    set_variable(statement.loop_name, Value::loop(self));
    assign(statement.targets, statement.unpacks, loops_[loop_index].items[i]);
    const Flow flow = execute(statement.body);
    has_finished_turn |= flow == Flow::Normal;
    if (flow == Flow::Break) break;
  }
  return has_finished_turn;
}

void Evaluator::execute_set(const SetStatement& statement) {
  Value value = evaluate(*statement.value);
  context_.set_line(statement.line);
  if (statement.attribute.empty()) {
    assign(statement.targets, statement.unpacks, value);
  } else {
    assign_attribute(statement.targets[0], statement.attribute, std::move(value));
  }
}

Evaluator::Flow Evaluator::capture(const Block& body, MarkedText& text) {
  MarkedText* const outer = std::exchange(out_, &text);
  push_frame(current_);
  const Flow flow = execute(body);
  pop_frame();
  out_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::execute_set_block(const SetBlockStatement& statement) {
  MarkedText text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::Normal) return flow;
  Value value = Value::text(std::move(text));
  if (statement.filters) value = apply_filters(*statement.filters, value);
  if (statement.attribute.empty()) {
    set_variable(statement.target, std::move(value));
  } else {
    assign_attribute(statement.target, statement.attribute, std::move(value));
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::execute_filter_block(const FilterBlockStatement& statement) {
  MarkedText text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::Normal) return flow;
  append_output(apply_filters(*statement.filters, Value::text(std::move(text))));
  return Flow::Normal;
}

}  // namespace turnstile::engine
