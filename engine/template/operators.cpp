#include "engine/template/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace turnstile::engine {
namespace {

[[noreturn]] void fail_operands(RenderContext& context, std::string_view op, const Value& left,
                                const Value& right) {
  for (const Value* value : {&left, &right}) {
    const Undefined* undefined = value->as_undefined();
    if (undefined == nullptr) continue;
    context.fail(undefined->name == nullptr
                     ? "an undefined value is used with '" + std::string(op) + "'"
                     : "'" + *undefined->name + "' is undefined");
  }
  context.fail("'" + std::string(op) + "' does not work on " + std::string(left.type_name()) +
               " and " + std::string(right.type_name()));
}

std::string_view operator_text(Operator op) {
  switch (op) {
    case Operator::Subtract:
      return "-";
    case Operator::Multiply:
      return "*";
    case Operator::Divide:
      return "/";
    case Operator::FloorDivide:
      return "//";
    case Operator::Modulo:
      return "%";
    case Operator::Power:
      return "**";
    case Operator::Equal:
      return "==";
    case Operator::NotEqual:
      return "!=";
    case Operator::Less:
      return "<";
    case Operator::LessEqual:
      return "<=";
    case Operator::Greater:
      return ">";
    case Operator::GreaterEqual:
      return ">=";
    case Operator::In:
      return "in";
    case Operator::NotIn:
      return "not in";
  }
  return "?";
}

[[noreturn]] void fail_overflow(RenderContext& context) {
  context.fail("a number does not fit 64 bits");
}

bool are_integers(const Value& left, const Value& right) {
  return left.as_int().has_value() && right.as_int().has_value();
}

std::int64_t multiply(RenderContext& context, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail_overflow(context);
  return result;
}

std::int64_t subtract(RenderContext& context, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) fail_overflow(context);
  return result;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double floor_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t integer_power(RenderContext& context, std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  context.spend(static_cast<std::uint64_t>(std::min<std::int64_t>(exponent, 64)));
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (result == 0 || (result == 1 && base == 1)) break;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    result = multiply(context, result, base);
  }
  return result;
}

Value integer_operation(RenderContext& context, Operator op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Operator::Subtract:
      return Value::integer(subtract(context, a, b));
    case Operator::Multiply:
      return Value::integer(multiply(context, a, b));
    case Operator::FloorDivide:
    case Operator::Modulo: {
      if (b == 0) context.fail("division by zero");
      // The one quotient that may not fit, and a trap in hardware.
      if (b == -1) return Value::integer(op == Operator::Modulo ? 0 : subtract(context, 0, a));
      const std::int64_t quotient = floor_divide(a, b);
      return Value::integer(op == Operator::Modulo ? a - quotient * b : quotient);
    }
    case Operator::Power:
      if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return Value::integer(integer_power(context, a, b));
    default:
      return Value();
  }
}

Value real_operation(RenderContext& context, Operator op, double a, double b) {
  const bool divides =
      op == Operator::Divide || op == Operator::FloorDivide || op == Operator::Modulo;
  if (divides && b == 0.0) context.fail("division by zero");
  switch (op) {
    case Operator::Subtract:
      return Value::real(a - b);
    case Operator::Multiply:
      return Value::real(a * b);
    case Operator::Divide:
      return Value::real(a / b);
    case Operator::FloorDivide:
      return Value::real(std::floor(a / b));
    case Operator::Modulo:
      return Value::real(floor_modulo(a, b));
    case Operator::Power:
      return Value::real(std::pow(a, b));
    default:
      return Value();
  }
}

// text * count and list * count; an undefined value if the operands are something else.
Value repeat(RenderContext& context, const Value& value, const Value& times) {
  if (!times.as_int() || (!value.is_text() && !value.is_list())) return Value();
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(*times.as_int(), 0));
  if (const MarkedText* text = value.as_text()) {
    if (text->size() != 0 && count > RenderLimits::kMaxOutputBytes / text->size()) {
      context.check_text_size(RenderLimits::kMaxOutputBytes + 1);
    }
    context.spend(text->size() == 0 ? 0 : count);
    context.spend_bytes(text->size() * count);
    MarkedText result;
    for (std::uint64_t i = 0; i < count && text->size() != 0; ++i) result.append(*text);
    return context.make_text(std::move(result));
  }
  const ListValue& list = *value.as_list();
  std::vector<Value> items;
  if (!list.items.empty()) {
    if (count > RenderLimits::kMaxListItems / list.items.size()) {
      context.check_list_size(RenderLimits::kMaxListItems + 1);
    }
    context.spend(list.items.size() * count);
    for (std::uint64_t i = 0; i < count; ++i) {
      items.insert(items.end(), list.items.begin(), list.items.end());
    }
  }
  return list.is_tuple ? context.make_tuple(std::move(items)) : context.make_list(std::move(items));
}

bool lists_less(RenderContext& context, const ListValue& a, const ListValue& b) {
  const std::size_t common = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!context.are_equal(a.items[i], b.items[i])) {
      return is_less(context, a.items[i], b.items[i]);
    }
  }
  return a.items.size() < b.items.size();
}

}  // namespace

Value add(RenderContext& context, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (!are_integers(left, right)) return Value::real(*left.as_real() + *right.as_real());
    std::int64_t sum = 0;
    if (__builtin_add_overflow(*left.as_int(), *right.as_int(), &sum)) fail_overflow(context);
    return Value::integer(sum);
  }
  if (left.is_text() && right.is_text()) {
    context.spend_bytes(left.as_text()->size() + right.as_text()->size());
    MarkedText sum = *left.as_text();
    sum.append(*right.as_text());
    return context.make_text(std::move(sum));
  }
  if (left.is_list() && right.is_list() && left.as_list()->is_tuple == right.as_list()->is_tuple) {
    std::vector<Value> items = items_of(context, left);
    const std::vector<Value>& more = right.as_list()->items;
    context.spend(more.size());
    items.insert(items.end(), more.begin(), more.end());
    return left.as_list()->is_tuple ? context.make_tuple(std::move(items))
                                    : context.make_list(std::move(items));
  }
  fail_operands(context, "+", left, right);
}

Value apply_binary(RenderContext& context, Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (op != Operator::Divide && are_integers(left, right)) {
      return integer_operation(context, op, *left.as_int(), *right.as_int());
    }
    return real_operation(context, op, *left.as_real(), *right.as_real());
  }
  if (op == Operator::Multiply) {
    Value repeated = repeat(context, left, right);
    if (repeated.is_undefined()) repeated = repeat(context, right, left);
    if (!repeated.is_undefined()) return repeated;
  }
  if (op == Operator::Modulo && left.is_text()) {
    context.fail("formatting a text with '%' is not supported");
  }
  fail_operands(context, operator_text(op), left, right);
}

Value negate(RenderContext& context, const Value& value) {
  if (const auto number = value.as_int()) return Value::integer(subtract(context, 0, *number));
  if (value.is_real()) return Value::real(-*value.as_real());
  context.fail("'-' does not work on " + std::string(value.type_name()));
}

bool is_less(RenderContext& context, const Value& left, const Value& right) {
  context.spend(1);
  if (left.is_number() && right.is_number()) {
    return are_integers(left, right) ? *left.as_int() < *right.as_int()
                                     : *left.as_real() < *right.as_real();
  }
  if (left.is_text() && right.is_text()) {
    context.spend_bytes(std::min(left.as_text()->size(), right.as_text()->size()));
    return left.as_text()->text() < right.as_text()->text();
  }
  if (left.is_list() && right.is_list() && left.as_list()->is_tuple == right.as_list()->is_tuple) {
    return lists_less(context, *left.as_list(), *right.as_list());
  }
  fail_operands(context, "<", left, right);
}

bool compare(RenderContext& context, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::Equal:
      return context.are_equal(left, right);
    case Operator::NotEqual:
      return !context.are_equal(left, right);
    case Operator::Less:
      return is_less(context, left, right);
    case Operator::Greater:
      return is_less(context, right, left);
    case Operator::LessEqual:
    case Operator::GreaterEqual: {
      const Value& low = op == Operator::LessEqual ? left : right;
      const Value& high = op == Operator::LessEqual ? right : left;
      if (low.is_real() || high.is_real()) {
        // NaN is neither less than nor equal to anything.
        if (low.is_number() && high.is_number()) return *low.as_real() <= *high.as_real();
      }
      return !is_less(context, high, low);
    }
    case Operator::In:
      return contains(context, right, left);
    case Operator::NotIn:
      return !contains(context, right, left);
    default:
      return false;
  }
}

bool contains(RenderContext& context, const Value& container, const Value& item) {
  if (const MarkedText* text = container.as_text()) {
    const MarkedText* part = item.as_text();
    if (part == nullptr) fail_operands(context, "in", item, container);
    context.spend_bytes(text->size() + part->size());
    // Two-way search: linear, whatever the texts are.
    return part->size() == 0 || ::memmem(text->text().data(), text->size(), part->text().data(),
                                         part->size()) != nullptr;
  }
  if (const ListValue* list = container.as_list()) {
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& other) { return context.are_equal(other, item); });
  }
  if (const DictValue* dict = container.as_dict()) {
    if (item.is_list() || item.is_dict()) context.fail("a list or dict cannot be a key");
    context.spend(dict->entries.size() / 16);
    return dict->find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  fail_operands(context, "in", item, container);
}

}  // namespace turnstile::engine
