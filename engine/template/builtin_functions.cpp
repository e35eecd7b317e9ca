#include "engine/template/builtin_functions.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/template/civil_time.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {
namespace {

// The entries of an optional dict and the named arguments after it.
std::vector<std::pair<Value, Value>> entries_of(RenderContext& context, const Arguments& arguments,
                                                std::string_view function) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) {
    context.fail(std::string(function) + "() takes one dict and named arguments");
  }
  for (const Value& given : arguments.positional) {
    const DictValue* dict = given.as_dict();
    if (dict == nullptr) context.fail(std::string(function) + "() needs a dict");
    context.spend(dict->entries.size());
    entries = dict->entries;
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(Value::text(std::string(name), Origin::Template), value);
  }
  return entries;
}

Value call_namespace(RenderContext& context, const Arguments& arguments) {
  Value result = Value::new_namespace();
  for (const auto& [key, value] : entries_of(context, arguments, "namespace")) {
    const MarkedText* name = key.as_text();
    if (name == nullptr) context.fail("namespace() needs texts as names");
    set_attribute(context, *result.as_namespace(), name->text(), value);
  }
  return result;
}

Value call_dict(RenderContext& context, const Arguments& arguments) {
  Value result = Value::dict({});
  for (const auto& [key, value] : entries_of(context, arguments, "dict")) {
    context.check_item(value);
    context.spend(1 + result.as_dict()->entries.size() / 16);
    result.as_dict()->set(key, value);
  }
  return result;
}

Value call_range(RenderContext& context, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "range", {"start", "stop", "step"});
  std::int64_t numbers[3] = {0, 0, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    if (given[i] == nullptr) continue;
    const auto number = given[i]->as_int();
    if (!number) context.fail("range() needs integers");
    numbers[i] = *number;
  }
  if (given[0] == nullptr) context.fail("range() needs a number");
  const std::int64_t start = given[1] == nullptr ? 0 : numbers[0];
  const std::int64_t stop = given[1] == nullptr ? numbers[0] : numbers[1];
  const std::int64_t step = numbers[2];
  if (step == 0) context.fail("the step of range() must not be 0");
  std::vector<Value> items;
  if (step > 0 ? start < stop : start > stop) {
    const std::uint64_t distance =
        step > 0 ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                 : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
    const std::uint64_t stride =
        step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    const std::uint64_t count = (distance - 1) / stride + 1;
    context.check_list_size(count);
    context.spend(count);
    items.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t value =
          static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step);
      items.push_back(Value::integer(static_cast<std::int64_t>(value)));
    }
  }
  return context.make_list(std::move(items));
}

Value call_strftime(RenderContext& context, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "strftime_now", {"format"});
  const MarkedText* format = given[0] == nullptr ? nullptr : given[0]->as_text();
  if (format == nullptr) context.fail("strftime_now() needs a format");
  if (!context.now()) context.fail("strftime_now(): the time is not known here");
  context.spend(format->size());
  auto text = format_time(*context.now(), format->text());
  if (!text) context.fail("strftime_now(): a conversion in the format is not supported");
  return context.make_text(
      MarkedText(std::move(*text), format->has_client_bytes() ? Origin::Client : Origin::Template));
}

[[noreturn]] void call_raise(RenderContext& context, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "raise_exception", {"message"});
  context.raise(given[0] == nullptr ? std::string() : to_str(context, *given[0]).text());
}

}  // namespace

void set_attribute(RenderContext& context, NamespaceValue& names, std::string_view name,
                   Value value) {
  context.check_item(value);
  context.spend(names.attributes.size() / 16);
  // A namespace freezes everything in it, perhaps this one: hence the order.
  if (value.as_namespace() != nullptr) value.freeze();
  if (names.is_frozen) context.fail("a namespace that is part of another value cannot be changed");
  names.set(name, std::move(value));
}

Value call_builtin(RenderContext& context, BuiltinFunction function, const Arguments& arguments) {
  switch (function) {
    case BuiltinFunction::Namespace:
      return call_namespace(context, arguments);
    case BuiltinFunction::Range:
      return call_range(context, arguments);
    case BuiltinFunction::Dict:
      return call_dict(context, arguments);
    case BuiltinFunction::RaiseException:
      call_raise(context, arguments);
    case BuiltinFunction::StrftimeNow:
      return call_strftime(context, arguments);
    case BuiltinFunction::Method:
      break;
  }
  context.fail("a method can only be called where it is named");
}

}  // namespace turnstile::engine
