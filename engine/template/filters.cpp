#include "engine/template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "engine/template/json_text.h"
#include "engine/template/operators.h"
#include "engine/template/text_chars.h"
#include "engine/template/text_methods.h"
#include "engine/template/text_space.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {
namespace {

Value filter_tojson(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "tojson",
                                    {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = is_given_true(given[0]);
  style.sort_keys = is_given_true(given[3]);
  if (is_present(given[1])) {
    if (const MarkedText* text = given[1]->as_text()) {
      style.indent = text->text();
    } else if (const auto width = given[1]->as_int()) {
      const auto spaces = std::max<std::int64_t>(*width, 0);
      context.check_text_size(static_cast<std::size_t>(spaces));
      style.indent = std::string(static_cast<std::size_t>(spaces), ' ');
    } else {
      context.fail("tojson: indent must be an integer or a text");
    }
    style.item_separator = ",";
  }
  if (is_present(given[2])) {
    const ListValue* pair = given[2]->as_list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text()) {
      context.fail("tojson: separators must be two texts");
    }
    style.item_separator = pair->items[0].as_text()->text();
    style.key_separator = pair->items[1].as_text()->text();
  }
  return context.make_text(to_json(context, input, style));
}

Value filter_length(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "length", {});
  std::size_t count = 0;
  if (const MarkedText* text = input.as_text()) {
    context.spend_bytes(text->size());
    count = count_chars(text->text());
  } else if (const ListValue* list = input.as_list()) {
    count = list->items.size();
  } else if (const DictValue* dict = input.as_dict()) {
    count = dict->entries.size();
  } else if (!input.is_undefined()) {
    context.fail("a " + std::string(input.type_name()) + " has no length");
  }
  return Value::integer(static_cast<std::int64_t>(count));
}

Value filter_trim(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "trim", {"chars"});
  const MarkedText* chars = is_present(given[0]) ? given[0]->as_text() : nullptr;
  if (is_present(given[0]) && chars == nullptr) context.fail("trim: chars must be a text");
  return Value::text(strip(context, to_str(context, input), Side::Both, chars));
}

Value filter_string(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "string", {});
  return input.is_text() ? input : Value::text(to_str(context, input));
}

Value filter_safe(RenderContext& context, const Value& input, const Arguments& arguments) {
  return filter_string(context, input, arguments);
}

Value filter_default(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "default", {"default_value", "boolean"});
  if (!input.is_undefined() && (input.is_true() || !is_given_true(given[1]))) return input;
  return given[0] == nullptr ? Value::text("", Origin::Template) : *given[0];
}

Value filter_lower(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "lower", {});
  return Value::text(to_lower(to_str(context, input)));
}

Value filter_upper(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "upper", {});
  return Value::text(to_upper(to_str(context, input)));
}

Value filter_capitalize(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "capitalize", {});
  return Value::text(capitalize(to_str(context, input)));
}

Value filter_replace(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "replace", {"old", "new", "count"});
  if (given[0] == nullptr || given[1] == nullptr) context.fail("replace: needs two texts");
  std::optional<std::uint64_t> count;
  if (is_present(given[2])) {
    const auto number = given[2]->as_int();
    if (!number) context.fail("replace: count must be an integer");
    if (*number >= 0) count = static_cast<std::uint64_t>(*number);
  }
  return context.make_text(replace(context, to_str(context, input), to_str(context, *given[0]),
                                   to_str(context, *given[1]), count));
}

Value filter_indent(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "indent", {"width", "first", "blank"});
  MarkedText indention("    ");
  if (given[0] != nullptr) {
    if (const MarkedText* text = given[0]->as_text()) {
      indention = *text;
    } else if (const auto width = given[0]->as_int()) {
      const auto spaces = std::max<std::int64_t>(*width, 0);
      context.check_text_size(static_cast<std::size_t>(spaces));
      indention = MarkedText(std::string(static_cast<std::size_t>(spaces), ' '));
    } else {
      context.fail("indent: width must be an integer or a text");
    }
  }
  // A line feed is put at the end so that a last empty line is a line too.
  MarkedText text = to_str(context, input);
  text.append("\n", Origin::Template);
  const std::vector<MarkedText> lines = split_lines(context, text);
  MarkedText result;
  if (is_given_true(given[1])) result.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      result.append("\n", Origin::Template);
      if (is_given_true(given[2]) || lines[i].size() != 0) {
        context.spend_bytes(indention.size());
        result.append(indention);
      }
    }
    result.append(lines[i]);
    context.check_text_size(result.size());
  }
  return context.make_text(std::move(result));
}

// The number that a text spells with Python's int() or float() rules but for underscores.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  text.remove_prefix(leading_space_bytes(text));
  text = text.substr(0, trailing_space_begin(text));
  const bool has_plus = !text.empty() && text[0] == '+';
  if (has_plus) text.remove_prefix(1);
  if (has_plus && !text.empty() && (text[0] == '+' || text[0] == '-')) return std::nullopt;
  Number number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> truncate(double number) {
  if (!(std::fabs(number) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Value filter_int(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "int", {"default"});
  const Value fallback = given[0] == nullptr ? Value::integer(0) : *given[0];
  if (input.is_undefined()) context.fail("an undefined value is no number");
  if (const auto number = input.as_int()) return Value::integer(*number);
  std::optional<double> real = input.as_real();
  if (const MarkedText* text = input.as_text()) {
    context.spend_bytes(text->size());
    if (const auto number = parse_number<std::int64_t>(text->text())) {
      return Value::integer(*number);
    }
    real = parse_number<double>(text->text());
  }
  const auto number = real ? truncate(*real) : std::nullopt;
  return number ? Value::integer(*number) : fallback;
}

Value filter_float(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "float", {"default"});
  if (input.is_undefined()) context.fail("an undefined value is no number");
  std::optional<double> real = input.as_real();
  if (const MarkedText* text = input.as_text()) {
    context.spend_bytes(text->size());
    real = parse_number<double>(text->text());
  }
  if (real) return Value::real(*real);
  return given[0] == nullptr ? Value::real(0.0) : *given[0];
}

Value filter_abs(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "abs", {});
  if (!input.is_number()) {
    context.fail("abs: a " + std::string(input.type_name()) + " is no number");
  }
  if (*input.as_real() < 0) return negate(context, input);
  return input.as_bool() ? Value::integer(*input.as_int()) : input;
}

std::vector<FilterFunction> make_filters() {
  std::vector<FilterFunction> filters = {
      {"abs", filter_abs},         {"capitalize", filter_capitalize},
      {"count", filter_length},    {"d", filter_default},
      {"default", filter_default}, {"float", filter_float},
      {"indent", filter_indent},   {"int", filter_int},
      {"length", filter_length},   {"lower", filter_lower},
      {"replace", filter_replace}, {"safe", filter_safe},
      {"string", filter_string},   {"tojson", filter_tojson},
      {"trim", filter_trim},       {"upper", filter_upper},
  };
  const std::vector<FilterFunction> more = sequence_filters();
  filters.insert(filters.end(), more.begin(), more.end());
  return filters;
}

}  // namespace

const FilterFunction* find_filter(std::string_view name) {
  static const std::vector<FilterFunction> filters = make_filters();
  const auto found = std::find_if(filters.begin(), filters.end(),
                                  [&](const FilterFunction& f) { return f.name == name; });
  return found == filters.end() ? nullptr : &*found;
}

}  // namespace turnstile::engine
