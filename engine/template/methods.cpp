#include "engine/template/methods.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/template/text_chars.h"
#include "engine/template/text_methods.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {
namespace {

constexpr std::array<std::string_view, 18> kTextMethods = {
    "capitalize", "count",        "endswith",     "find",       "join",  "lower",
    "lstrip",     "removeprefix", "removesuffix", "replace",    "rfind", "rsplit",
    "rstrip",     "split",        "splitlines",   "startswith", "strip", "upper"};
constexpr std::array<std::string_view, 11> kListMethods = {"append", "clear",   "copy",   "count",
                                                           "extend", "index",   "insert", "pop",
                                                           "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 11> kDictMethods = {
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void fail_unsupported(const RenderContext& context, const Value& object,
                                   std::string_view name) {
  context.fail("the method '" + std::string(name.substr(0, 40)) + "' of a " +
               std::string(object.type_name()) + " is not supported");
}

const MarkedText* optional_text(const RenderContext& context, const Value* value,
                                std::string_view method) {
  if (value == nullptr || value->is_none()) return nullptr;
  const MarkedText* text = value->as_text();
  if (text == nullptr) {
    context.fail(std::string(method) + "() needs a text, not a " + std::string(value->type_name()));
  }
  return text;
}

const MarkedText& required_text(const RenderContext& context, const Value* value,
                                std::string_view method) {
  const MarkedText* text = optional_text(context, value, method);
  if (text == nullptr) context.fail(std::string(method) + "() needs a text");
  return *text;
}

// nullopt for an absent or negative count, which stand for "all".
std::optional<std::uint64_t> optional_count(const RenderContext& context, const Value* value,
                                            std::string_view method) {
  if (value == nullptr) return std::nullopt;
  const auto count = value->as_int();
  if (!count) context.fail(std::string(method) + "() needs an integer");
  if (*count < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*count);
}

// startswith and endswith take one text or a tuple of them.
bool has_affix(RenderContext& context, std::string_view text, const Value* affix, bool at_start,
               std::string_view method) {
  const auto matches = [&](const Value& candidate) {
    const std::string_view part = required_text(context, &candidate, method).text();
    context.spend_bytes(part.size());
    if (part.size() > text.size()) return false;
    return text.substr(at_start ? 0 : text.size() - part.size(), part.size()) == part;
  };
  const ListValue* list = affix == nullptr ? nullptr : affix->as_list();
  if (list == nullptr) return matches(affix == nullptr ? Value() : *affix);
  return std::any_of(list->items.begin(), list->items.end(), matches);
}

Value call_strip(RenderContext& context, const MarkedText& text, std::string_view name,
                 const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, name, {"chars"});
  const Side side = name == "strip" ? Side::Both : name == "lstrip" ? Side::Left : Side::Right;
  return Value::text(strip(context, text, side, optional_text(context, given[0], name)));
}

Value call_split(RenderContext& context, const MarkedText& text, std::string_view name,
                 const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, name, {"sep", "maxsplit"});
  return context.make_list(split(context, text, optional_text(context, given[0], name),
                                 optional_count(context, given[1], name),
                                 name == "rsplit" ? Side::Right : Side::Left));
}

Value call_find(RenderContext& context, const MarkedText& text, std::string_view name,
                const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, name, {"sub"});
  const std::string& part = required_text(context, given[0], name).text();
  context.spend_bytes(text.size());
  std::size_t found = std::string::npos;
  if (name == "find") {
    found = find_bytes(text.text(), part, 0);
  } else {
    check_backward_part(context, part);
    found = text.text().rfind(part);
  }
  if (found == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<std::int64_t>(TextChars(text.text()).index_of(found)));
}

Value call_count(RenderContext& context, const MarkedText& text, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "count", {"sub"});
  const std::string& part = required_text(context, given[0], "count").text();
  context.spend_bytes(text.size());
  if (part.empty()) return Value::integer(static_cast<std::int64_t>(count_chars(text.text())) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_bytes(text.text(), part, at)) != std::string::npos;) {
    at += part.size();
    ++count;
  }
  context.spend(static_cast<std::uint64_t>(count) / 16);
  return Value::integer(count);
}

Value call_join(RenderContext& context, const MarkedText& separator, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "join", {"iterable"});
  if (given[0] == nullptr) context.fail("join() needs a list");
  MarkedText result;
  bool is_first = true;
  for (const Value& item : items_of(context, *given[0])) {
    if (!is_first) result.append(separator);
    is_first = false;
    const MarkedText& part = required_text(context, &item, "join");
    context.spend_bytes(part.size() + separator.size());
    result.append(part);
    context.check_text_size(result.size());
  }
  return context.make_text(std::move(result));
}

Value call_replace(RenderContext& context, const MarkedText& text, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "replace", {"old", "new", "count"});
  return context.make_text(replace(context, text, required_text(context, given[0], "replace"),
                                   required_text(context, given[1], "replace"),
                                   optional_count(context, given[2], "replace")));
}

Value call_remove_affix(RenderContext& context, const MarkedText& text, std::string_view name,
                        const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, name, {"affix"});
  const bool at_start = name == "removeprefix";
  const std::size_t size = required_text(context, given[0], name).size();
  if (!has_affix(context, text.text(), given[0], at_start, name)) return Value::text(text);
  return Value::text(at_start ? text.slice(size, text.size()) : text.slice(0, text.size() - size));
}

Value call_text_method(RenderContext& context, const Value& object, std::string_view name,
                       const Arguments& arguments) {
  const MarkedText& text = *object.as_text();
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return call_strip(context, text, name, arguments);
  }
  if (name == "split" || name == "rsplit") return call_split(context, text, name, arguments);
  if (name == "startswith" || name == "endswith") {
    const auto given = bind_arguments(context, arguments, name, {"affix"});
    return Value::boolean(has_affix(context, text.text(), given[0], name == "startswith", name));
  }
  if (name == "find" || name == "rfind") return call_find(context, text, name, arguments);
  if (name == "count") return call_count(context, text, arguments);
  if (name == "join") return call_join(context, text, arguments);
  if (name == "replace") return call_replace(context, text, arguments);
  if (name == "removeprefix" || name == "removesuffix") {
    return call_remove_affix(context, text, name, arguments);
  }
  bind_arguments(context, arguments, name, {});
  context.spend_bytes(text.size());
  if (name == "lower") return Value::text(to_lower(text));
  if (name == "upper") return Value::text(to_upper(text));
  if (name == "capitalize") return Value::text(capitalize(text));
  if (name == "splitlines") {
    std::vector<Value> lines;
    for (MarkedText& line : split_lines(context, text)) {
      lines.push_back(Value::text(std::move(line)));
    }
    return context.make_list(std::move(lines));
  }
  fail_unsupported(context, object, name);
}

void check_changeable(const RenderContext& context, bool is_frozen, std::string_view name) {
  if (is_frozen) {
    context.fail(std::string(name) +
                 "() on a value that comes from the request or is part of another value");
  }
}

Value call_list_method(RenderContext& context, const Value& object, std::string_view name,
                       const Arguments& arguments) {
  ListValue& list = *object.as_list();
  if (list.is_tuple || (name != "append" && name != "pop")) {
    fail_unsupported(context, object, name);
  }
  check_changeable(context, list.is_frozen, name);
  const auto given = bind_arguments(context, arguments, name, {"value"});
  if (name == "append") {
    if (given[0] == nullptr) context.fail("append() needs a value");
    context.check_item(*given[0]);
    context.check_list_size(list.items.size() + 1);
    // Freezing the new item first keeps a list from being appended to itself.
    given[0]->freeze();
    check_changeable(context, list.is_frozen, name);
    list.depth = std::max(list.depth, given[0]->depth() + 1);
    list.items.push_back(*given[0]);
    return Value::none();
  }
  const auto size = static_cast<std::int64_t>(list.items.size());
  std::int64_t index = size - 1;
  if (given[0] != nullptr) {
    if (!given[0]->as_int()) context.fail("pop() needs an integer");
    index = *given[0]->as_int();
    if (index < 0) index += size;
  }
  if (index < 0 || index >= size) context.fail("pop() beyond the end of a list");
  context.spend(1 + static_cast<std::uint64_t>(size - index) / 16);
  Value taken = list.items[static_cast<std::size_t>(index)];
  list.items.erase(list.items.begin() + index);
  return taken;
}

Value call_dict_method(RenderContext& context, const Value& object, std::string_view name,
                       const Arguments& arguments) {
  DictValue& dict = *object.as_dict();
  context.spend(1 + dict.entries.size() / 16);
  if (name == "get") {
    const auto given = bind_arguments(context, arguments, name, {"key", "default"});
    if (given[0] == nullptr) context.fail("get() needs a key");
    if (const Value* found = dict.find(*given[0])) return *found;
    return given[1] == nullptr ? Value::none() : *given[1];
  }
  if (name == "pop") {
    check_changeable(context, dict.is_frozen, name);
    const auto given = bind_arguments(context, arguments, name, {"key", "default"});
    if (given[0] == nullptr) context.fail("pop() needs a key");
    const Value* found = dict.find(*given[0]);
    if (found == nullptr && given[1] == nullptr) context.fail("pop() of a key that is not there");
    if (found == nullptr) return *given[1];
    const Value taken = *found;
    const auto entry = std::find_if(dict.entries.begin(), dict.entries.end(),
                                    [&](const auto& e) { return &e.second == found; });
    dict.entries.erase(entry);
    return taken;
  }
  if (name != "items" && name != "keys" && name != "values") {
    fail_unsupported(context, object, name);
  }
  bind_arguments(context, arguments, name, {});
  context.spend(dict.entries.size());
  std::vector<Value> result;
  result.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    result.push_back(name == "keys"     ? key
                     : name == "values" ? value
                                        : context.make_tuple({key, value}));
  }
  return context.make_list(std::move(result));
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  if (object.is_text()) {
    return is_one_of(kTextMethods, name);
  }
  if (const ListValue* list = object.as_list()) {
    return list->is_tuple ? name == "count" || name == "index" : is_one_of(kListMethods, name);
  }
  return object.is_dict() && is_one_of(kDictMethods, name);
}

Value call_method(RenderContext& context, const Value& object, std::string_view name,
                  const Arguments& arguments) {
  if (object.is_text()) return call_text_method(context, object, name, arguments);
  if (object.is_list()) return call_list_method(context, object, name, arguments);
  if (object.is_dict()) return call_dict_method(context, object, name, arguments);
  fail_unsupported(context, object, name);
}

}  // namespace turnstile::engine
