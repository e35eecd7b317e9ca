// The filters of filters.h that work on lists, dicts and the characters of a text.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/template/filters.h"
#include "engine/template/operators.h"
#include "engine/template/text_methods.h"
#include "engine/template/value_tests.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {
namespace {

Value filter_join(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "join", {"d", "attribute"});
  MarkedText separator;
  if (given[0] != nullptr) separator = to_str(context, *given[0]);
  MarkedText result;
  bool is_first = true;
  for (const Value& item : items_of(context, input)) {
    if (!is_first) result.append(separator);
    is_first = false;
    context.spend_bytes(separator.size());
    append_str(context, is_present(given[1]) ? item_at_path(context, item, *given[1]) : item,
               result);
  }
  return context.make_text(std::move(result));
}

Value filter_items(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "items", {});
  std::vector<Value> items;
  if (const DictValue* dict = input.as_dict()) {
    context.spend(dict->entries.size());
    for (const auto& [key, value] : dict->entries) {
      items.push_back(context.make_tuple({key, value}));
    }
  } else if (!input.is_undefined()) {
    context.fail("items: a " + std::string(input.type_name()) + " is not a dict");
  }
  return context.make_list(std::move(items));
}

Value filter_list(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "list", {});
  return context.make_list(items_of(context, input));
}

Value filter_first(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "first", {});
  const std::vector<Value> items = items_of(context, input);
  return items.empty() ? Value() : items.front();
}

Value filter_last(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "last", {});
  const std::vector<Value> items = items_of(context, input);
  return items.empty() ? Value() : items.back();
}

Value filter_reverse(RenderContext& context, const Value& input, const Arguments& arguments) {
  bind_arguments(context, arguments, "reverse", {});
  if (input.is_text()) {
    return slice_of(context, input, Value(), Value(), Value::integer(-1));
  }
  std::vector<Value> items = items_of(context, input);
  std::reverse(items.begin(), items.end());
  return context.make_list(std::move(items));
}

Value filter_sum(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "sum", {"attribute", "start"});
  Value total = given[1] == nullptr ? Value::integer(0) : *given[1];
  for (const Value& item : items_of(context, input)) {
    total =
        add(context, total, is_present(given[0]) ? item_at_path(context, item, *given[0]) : item);
  }
  return total;
}

// What to order by: a text without regard to case unless that is asked for.
Value sort_key(RenderContext& context, const Value& item, const Value* attribute,
               bool is_case_sensitive) {
  Value key = is_present(attribute) ? item_at_path(context, item, *attribute) : item;
  if (is_case_sensitive || !key.is_text()) return key;
  context.spend_bytes(key.as_text()->size());
  return Value::text(to_lower(*key.as_text()));
}

std::vector<Value> sorted(RenderContext& context, std::vector<Value> items,
                          const std::vector<Value>& keys, bool is_reversed) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Reversed, equal items stay in their order too.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return is_reversed ? is_less(context, keys[b], keys[a]) : is_less(context, keys[a], keys[b]);
  });
  std::vector<Value> result;
  result.reserve(items.size());
  for (const std::size_t i : order) result.push_back(std::move(items[i]));
  return result;
}

Value filter_sort(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given =
      bind_arguments(context, arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = items_of(context, input);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(sort_key(context, item, given[2], is_given_true(given[1])));
  }
  return context.make_list(sorted(context, std::move(items), keys, is_given_true(given[0])));
}

Value filter_dictsort(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given =
      bind_arguments(context, arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const DictValue* dict = input.as_dict();
  if (dict == nullptr) {
    context.fail("dictsort: a " + std::string(input.type_name()) + " is not a dict");
  }
  const MarkedText* by = is_present(given[1]) ? given[1]->as_text() : nullptr;
  const bool by_value = by != nullptr && by->text() == "value";
  if (is_present(given[1]) && !by_value && (by == nullptr || by->text() != "key")) {
    context.fail("dictsort: by must be 'key' or 'value'");
  }
  std::vector<Value> items;
  std::vector<Value> keys;
  context.spend(dict->entries.size());
  for (const auto& [key, value] : dict->entries) {
    items.push_back(context.make_tuple({key, value}));
    keys.push_back(sort_key(context, by_value ? value : key, nullptr, is_given_true(given[0])));
  }
  return context.make_list(sorted(context, std::move(items), keys, is_given_true(given[2])));
}

Value filter_unique(RenderContext& context, const Value& input, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "unique", {"case_sensitive", "attribute"});
  std::vector<Value> result;
  std::vector<Value> seen;
  for (const Value& item : items_of(context, input)) {
    Value key = sort_key(context, item, given[1], is_given_true(given[0]));
    const bool is_known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return context.are_equal(other, key);
    });
    if (is_known) continue;
    seen.push_back(std::move(key));
    result.push_back(item);
  }
  return context.make_list(std::move(result));
}

const MarkedText& function_name(const RenderContext& context, const Value& value,
                                std::string_view filter) {
  const MarkedText* name = value.as_text();
  if (name == nullptr) context.fail(std::string(filter) + ": a name must be a text");
  return *name;
}

// select, reject, selectattr, rejectattr: whether `item` passes the test that the arguments from
// `first` on name. Without a name an item passes when it is true.
bool passes(RenderContext& context, const Value& item, const Arguments& arguments,
            std::size_t first, std::string_view filter) {
  if (arguments.positional.size() <= first) return item.is_true();
  const MarkedText& name = function_name(context, arguments.positional[first], filter);
  const TestFunction* test = find_test(name.text());
  if (test == nullptr) context.fail("there is no test '" + name.text() + "'");
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                         arguments.positional.end());
  rest.named = arguments.named;
  return test->holds(context, item, rest);
}

Value filter_by_test(RenderContext& context, const Value& input, const Arguments& arguments,
                     bool by_attribute, bool wanted, std::string_view filter) {
  if (by_attribute && arguments.positional.empty()) {
    context.fail(std::string(filter) + ": needs the name of an attribute");
  }
  std::vector<Value> result;
  if (!input.is_true()) return context.make_list({});  // None is as good as an empty list here
  for (const Value& item : items_of(context, input)) {
    context.spend(1);
    const Value subject =
        by_attribute ? item_at_path(context, item, arguments.positional[0]) : item;
    if (passes(context, subject, arguments, by_attribute ? 1 : 0, filter) == wanted) {
      result.push_back(item);
    }
  }
  return context.make_list(std::move(result));
}

Value filter_select(RenderContext& context, const Value& input, const Arguments& arguments) {
  return filter_by_test(context, input, arguments, false, true, "select");
}

Value filter_reject(RenderContext& context, const Value& input, const Arguments& arguments) {
  return filter_by_test(context, input, arguments, false, false, "reject");
}

Value filter_selectattr(RenderContext& context, const Value& input, const Arguments& arguments) {
  return filter_by_test(context, input, arguments, true, true, "selectattr");
}

Value filter_rejectattr(RenderContext& context, const Value& input, const Arguments& arguments) {
  return filter_by_test(context, input, arguments, true, false, "rejectattr");
}

// map('filter', arguments...) or map(attribute='a.b', default=...).
Value filter_map(RenderContext& context, const Value& input, const Arguments& arguments) {
  std::vector<Value> result;
  if (!input.is_true()) return context.make_list({});
  if (arguments.positional.empty()) {
    const auto given = bind_arguments(context, arguments, "map", {"attribute", "default"});
    if (given[0] == nullptr) context.fail("map: needs a filter or attribute=");
    for (const Value& item : items_of(context, input)) {
      context.spend(1);
      Value value = item_at_path(context, item, *given[0]);
      if (value.is_undefined() && given[1] != nullptr) value = *given[1];
      result.push_back(std::move(value));
    }
    return context.make_list(std::move(result));
  }
  const MarkedText& name = function_name(context, arguments.positional[0], "map");
  const FilterFunction* filter = find_filter(name.text());
  if (filter == nullptr) context.fail("there is no filter '" + name.text() + "'");
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  for (const Value& item : items_of(context, input)) {
    context.spend(1);
    result.push_back(filter->apply(context, item, rest));
  }
  return context.make_list(std::move(result));
}

}  // namespace

Value item_at_path(RenderContext& context, const Value& object, const Value& path) {
  const MarkedText* text = path.as_text();
  if (text == nullptr) return item_of(context, object, path);
  Value value = object;
  std::string_view rest = text->text();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool is_number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    value =
        item_of(context, value,
                is_number ? Value::integer(std::stoi(part)) : Value::text(part, Origin::Template));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

std::vector<FilterFunction> sequence_filters() {
  return {
      {"dictsort", filter_dictsort}, {"first", filter_first},   {"items", filter_items},
      {"join", filter_join},         {"last", filter_last},     {"list", filter_list},
      {"map", filter_map},           {"reject", filter_reject}, {"rejectattr", filter_rejectattr},
      {"reverse", filter_reverse},   {"select", filter_select}, {"selectattr", filter_selectattr},
      {"sort", filter_sort},         {"sum", filter_sum},       {"unique", filter_unique},
  };
}

}  // namespace turnstile::engine
