#include "engine/template/render_context.h"

#include <algorithm>

#include "engine/template/template_failure.h"
#include "engine/template/text_chars.h"

namespace turnstile::engine {

void RenderContext::fail(std::string message) const { fail_at(line_, std::move(message)); }

void RenderContext::raise(std::string message) const {
  throw TemplateFailure{{line_, std::move(message), true}};
}

void RenderContext::fail_out_of_steps() const {
  fail("the template needs more than " + std::to_string(RenderLimits::kMaxSteps) + " steps");
}

void RenderContext::check_text_size(std::size_t bytes) {
  if (bytes > RenderLimits::kMaxOutputBytes) {
    fail("a text of more than " + std::to_string(RenderLimits::kMaxOutputBytes) + " bytes");
  }
}

void RenderContext::check_list_size(std::size_t items) {
  if (items > RenderLimits::kMaxListItems) {
    fail("a list of more than " + std::to_string(RenderLimits::kMaxListItems) + " items");
  }
}

bool RenderContext::are_equal(const Value& a, const Value& b) {
  const bool result = equal(a, b, steps_left_);
  if (steps_left_ == 0) fail_out_of_steps();
  return result;
}

Value RenderContext::make_text(MarkedText text) {
  check_text_size(text.size());
  return Value::text(std::move(text));
}

void RenderContext::check_item(const Value& item) {
  if (item.depth() >= RenderLimits::kMaxValueDepth)
    fail("lists, dicts or namespaces are nested too deeply");
}

Value RenderContext::make_list(std::vector<Value> items) {
  check_list_size(items.size());
  for (const Value& item : items) check_item(item);
  return Value::list(std::move(items));
}

Value RenderContext::make_tuple(std::vector<Value> items) {
  for (const Value& item : items) check_item(item);
  return Value::tuple(std::move(items));
}

std::vector<const Value*> bind_arguments(const RenderContext& context, const Arguments& arguments,
                                         std::string_view function,
                                         std::initializer_list<std::string_view> names) {
  std::vector<const Value*> bound(names.size(), nullptr);
  if (arguments.positional.size() > names.size()) {
    context.fail(std::string(function) + "() takes at most " + std::to_string(names.size()) +
                 " arguments, " + std::to_string(arguments.positional.size()) + " were given");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    bound[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      context.fail(std::string(function) + "() has no argument '" + std::string(name) + "'");
    }
    const Value*& slot = bound[static_cast<std::size_t>(known - names.begin())];
    if (slot != nullptr) {
      context.fail(std::string(function) + "() got '" + std::string(name) + "' twice");
    }
    slot = &value;
  }
  return bound;
}

std::vector<Value> items_of(RenderContext& context, const Value& value) {
  if (const ListValue* list = value.as_list()) {
    context.spend(list->items.size());
    return list->items;
  }
  std::vector<Value> items;
  if (const DictValue* dict = value.as_dict()) {
    context.spend(dict->entries.size());
    items.reserve(dict->entries.size());
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const MarkedText* text = value.as_text()) {
    const TextChars chars(text->text());
    context.check_list_size(chars.count());
    context.spend(chars.count());
    items.reserve(chars.count());
    for (std::size_t i = 0; i < chars.count(); ++i) {
      items.push_back(Value::text(text->slice(chars.begin_of(i), chars.begin_of(i + 1))));
    }
  } else if (!value.is_undefined()) {
    context.fail("a " + std::string(value.type_name()) + " cannot be iterated over");
  }
  return items;
}

}  // namespace turnstile::engine
