// Attributes, subscripts and slices of operators.h.
#include <algorithm>
#include <optional>

#include "engine/template/methods.h"
#include "engine/template/operators.h"
#include "engine/template/text_chars.h"

namespace turnstile::engine {
namespace {

[[noreturn]] void fail_undefined(RenderContext& context, const Value& object) {
  const std::string* name = object.as_undefined()->name;
  context.fail(name == nullptr ? "an undefined value has no attributes"
                               : "'" + *name + "' is undefined");
}

const Value* find_in_dict(RenderContext& context, const DictValue& dict, std::string_view key) {
  context.spend(dict.entries.size() / 16);
  return dict.find(key);
}

// The position that a Python index means, if it is inside.
std::optional<std::size_t> position_of(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

struct SliceBounds {
  std::int64_t start, stop, step;
};

std::optional<std::int64_t> slice_part(RenderContext& context, const Value& value) {
  if (value.is_undefined() || value.is_none()) return std::nullopt;
  if (const auto number = value.as_int()) return number;
  context.fail("the parts of a slice must be integers");
}

// Python's rule: negative positions count from the end, everything is clamped.
SliceBounds slice_bounds(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                         std::int64_t step, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? count : count - 1;
  const auto clamp = [&](std::int64_t position) {
    if (position < 0) position = position < -count ? lowest : position + count;
    return std::clamp(position, lowest, highest);
  };
  return {start ? clamp(*start) : (step > 0 ? lowest : highest),
          stop ? clamp(*stop) : (step > 0 ? highest : lowest), step};
}

template <typename Use>
void for_each_position(RenderContext& context, SliceBounds bounds, Use use) {
  // The steps stay within [-1, size], so adding one more cannot overflow after clamping `step`.
  const std::int64_t span =
      bounds.step > 0 ? bounds.stop - bounds.start : bounds.start - bounds.stop;
  if (span <= 0) return;
  const std::uint64_t step = bounds.step > 0 ? static_cast<std::uint64_t>(bounds.step)
                                             : 0 - static_cast<std::uint64_t>(bounds.step);
  const std::uint64_t count = (static_cast<std::uint64_t>(span) - 1) / step + 1;
  context.spend(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = i * step;
    use(static_cast<std::size_t>(bounds.step > 0
                                     ? static_cast<std::uint64_t>(bounds.start) + offset
                                     : static_cast<std::uint64_t>(bounds.start) - offset));
  }
}

}  // namespace

Value attribute_of(RenderContext& context, const Value& object, const std::string& name) {
  if (object.is_undefined()) fail_undefined(context, object);
  if (const NamespaceValue* names = object.as_namespace()) {
    const Value* value = names->find(name);
    return value == nullptr ? Value::undefined(&name) : *value;
  }
  if (has_method(object, name)) return Value::function(BuiltinFunction::Method);
  if (const DictValue* dict = object.as_dict()) {
    if (const Value* value = find_in_dict(context, *dict, name)) return *value;
  }
  if (name.substr(0, 2) == "__") context.fail("'" + name + "' is not accessible");
  return Value::undefined(&name);
}

Value item_of(RenderContext& context, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(context, object);
  if (const DictValue* dict = object.as_dict()) {
    if (key.is_list() || key.is_dict()) context.fail("a list or dict cannot be a key");
    context.spend(dict->entries.size() / 16);
    if (const Value* value = dict->find(key)) return *value;
  } else if (const auto index = key.as_int()) {
    if (const ListValue* list = object.as_list()) {
      const auto position = position_of(*index, list->items.size());
      return position ? list->items[*position] : Value();
    }
    if (const MarkedText* text = object.as_text()) {
      context.spend_bytes(text->size());
      const TextChars chars(text->text());
      const auto position = position_of(*index, chars.count());
      if (!position) return Value();
      return Value::text(text->slice(chars.begin_of(*position), chars.begin_of(*position + 1)));
    }
  }
  const MarkedText* name = key.as_text();
  if (name == nullptr) return Value();
  if (const NamespaceValue* names = object.as_namespace()) {
    const Value* value = names->find(name->text());
    return value == nullptr ? Value() : *value;
  }
  if (has_method(object, name->text())) return Value::function(BuiltinFunction::Method);
  if (name->text().substr(0, 2) == "__") context.fail("'" + name->text() + "' is not accessible");
  return Value();
}

Value slice_of(RenderContext& context, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  if (object.is_undefined()) fail_undefined(context, object);
  const std::int64_t step_number = slice_part(context, step).value_or(1);
  if (step_number == 0) context.fail("the step of a slice must not be 0");
  const auto first = slice_part(context, start);
  const auto last = slice_part(context, stop);
  if (const MarkedText* text = object.as_text()) {
    context.spend_bytes(text->size());
    const TextChars chars(text->text());
    const SliceBounds bounds = slice_bounds(first, last, step_number, chars.count());
    if (step_number == 1) {
      const auto begin = static_cast<std::size_t>(bounds.start);
      const auto end = static_cast<std::size_t>(std::max(bounds.start, bounds.stop));
      return Value::text(text->slice(chars.begin_of(begin), chars.begin_of(end)));
    }
    MarkedText result;
    for_each_position(context, bounds, [&](std::size_t i) {
      result.append_slice(*text, chars.begin_of(i), chars.begin_of(i + 1));
    });
    return context.make_text(std::move(result));
  }
  if (const ListValue* list = object.as_list()) {
    std::vector<Value> items;
    for_each_position(context, slice_bounds(first, last, step_number, list->items.size()),
                      [&](std::size_t i) { items.push_back(list->items[i]); });
    return list->is_tuple ? context.make_tuple(std::move(items))
                          : context.make_list(std::move(items));
  }
  context.fail("a " + std::string(object.type_name()) + " cannot be sliced");
}

}  // namespace turnstile::engine
