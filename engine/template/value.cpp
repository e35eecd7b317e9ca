#include "engine/template/value.h"

#include <algorithm>
#include <cassert>

#include "engine/template/render_limits.h"

namespace turnstile::engine {
namespace {

bool same_key(const Value& a, const Value& b) {
  if (const MarkedText* text = a.as_text()) {
    return b.is_text() && text->text() == b.as_text()->text();
  }
  if (a.is_number()) return b.is_number() && *a.as_real() == *b.as_real();
  return a.is_none() && b.is_none();
}

bool spend(std::uint64_t& budget_steps, std::uint64_t steps) {
  const bool is_enough = budget_steps >= steps;
  budget_steps = is_enough ? budget_steps - steps : 0;
  return is_enough;
}

bool equal_lists(const ListValue& a, const ListValue& b, std::uint64_t& budget_steps) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], budget_steps)) return false;
  }
  return true;
}

bool equal_dicts(const DictValue& a, const DictValue& b, std::uint64_t& budget_steps) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    if (!spend(budget_steps, 1 + b.entries.size() / 16)) return false;
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, budget_steps)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (!a.is_real() && !b.is_real()) return *a.as_int() == *b.as_int();
  return *a.as_real() == *b.as_real();
}

}  // namespace

const Value* DictValue::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    const MarkedText* text = name.as_text();
    if (text != nullptr && text->text() == key) return &value;
  }
  return nullptr;
}

const Value* DictValue::find(const Value& key) const {
  if (const MarkedText* text = key.as_text()) return find(std::string_view(text->text()));
  for (const auto& [name, value] : entries) {
    if (same_key(name, key)) return &value;
  }
  return nullptr;
}

void DictValue::set(const Value& key, Value value) {
  assert(!is_frozen && "only an unfrozen dict changes");
  depth = std::max(depth, value.freeze().depth() + 1);
  for (auto& [name, old] : entries) {
    if (same_key(name, key)) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

const Value* NamespaceValue::find(std::string_view name) const {
  for (const auto& [attribute, value] : attributes) {
    if (attribute == name) return &value;
  }
  return nullptr;
}

void NamespaceValue::set(std::string_view name, Value value) {
  for (auto& [attribute, old] : attributes) {
    if (attribute == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

Value Value::text(std::string value, Origin origin) {
  return text(MarkedText(std::move(value), origin));
}

Value Value::text(MarkedText value) {
  return Value(Text(std::make_shared<const MarkedText>(std::move(value))));
}

Value Value::list(std::vector<Value> items) {
  auto list = std::make_shared<ListValue>();
  for (const Value& item : items) list->depth = std::max(list->depth, item.freeze().depth() + 1);
  list->items = std::move(items);
  return Value(List(std::move(list)));
}

Value Value::tuple(std::vector<Value> items) {
  Value value = list(std::move(items));
  value.as_list()->is_tuple = true;
  return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<DictValue>();
  for (const auto& [key, value] : entries) {
    dict->depth = std::max(dict->depth, value.freeze().depth() + 1);
  }
  dict->entries = std::move(entries);
  return Value(Dict(std::move(dict)));
}

Value Value::new_namespace() { return Value(Namespace(std::make_shared<NamespaceValue>())); }

bool Value::is_number() const {
  return std::holds_alternative<bool>(data_) || std::holds_alternative<std::int64_t>(data_) ||
         std::holds_alternative<double>(data_);
}

std::optional<bool> Value::as_bool() const {
  const bool* value = std::get_if<bool>(&data_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::int64_t> Value::as_int() const {
  if (const auto* value = std::get_if<std::int64_t>(&data_)) return *value;
  if (const bool* value = std::get_if<bool>(&data_)) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (const double* value = std::get_if<double>(&data_)) return *value;
  if (const auto value = as_int()) return static_cast<double>(*value);
  return std::nullopt;
}

const MarkedText* Value::as_text() const {
  const Text* text = std::get_if<Text>(&data_);
  return text == nullptr ? nullptr : text->get();
}

ListValue* Value::as_list() const {
  const List* list = std::get_if<List>(&data_);
  return list == nullptr ? nullptr : list->get();
}

DictValue* Value::as_dict() const {
  const Dict* dict = std::get_if<Dict>(&data_);
  return dict == nullptr ? nullptr : dict->get();
}

NamespaceValue* Value::as_namespace() const {
  const Namespace* names = std::get_if<Namespace>(&data_);
  return names == nullptr ? nullptr : names->get();
}

const Value& Value::freeze() const {
  // Only written when it changes: a frozen container may be shared between threads.
  ListValue* list = as_list();
  if (list != nullptr && !list->is_frozen) list->is_frozen = true;
  DictValue* dict = as_dict();
  if (dict != nullptr && !dict->is_frozen) dict->is_frozen = true;
  NamespaceValue* names = as_namespace();
  if (names != nullptr && !names->is_frozen) {
    for (const auto& attribute : names->attributes) attribute.second.freeze();
    names->depth = depth();
    names->is_frozen = true;
  }
  return *this;
}

std::uint32_t Value::depth() const {
  if (const ListValue* list = as_list()) return list->depth;
  if (const DictValue* dict = as_dict()) return dict->depth;
  std::uint32_t deepest = 0;
  if (const NamespaceValue* names = as_namespace()) {
    if (names->is_frozen) return names->depth;
    deepest = 1;
    for (const auto& [name, value] : names->attributes) {
      deepest = std::max(deepest, value.depth() + 1);
    }
  }
  return deepest;
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (const double* value = std::get_if<double>(&data_)) return *value != 0.0;
  if (const auto value = as_int()) return *value != 0;
  if (const MarkedText* text = as_text()) return text->size() != 0;
  if (const ListValue* list = as_list()) return !list->items.empty();
  if (const DictValue* dict = as_dict()) return !dict->entries.empty();
  return true;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (as_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_real()) return "float";
  if (is_text()) return "str";
  if (const ListValue* list = as_list()) return list->is_tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (as_namespace() != nullptr) return "namespace";
  if (as_loop() != nullptr) return "loop";
  return as_macro() != nullptr ? "macro" : "function";
}

bool equal(const Value& a, const Value& b, std::uint64_t& budget_steps) {
  if (!spend(budget_steps, 1)) return false;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    if (a.as_text()->size() != b.as_text()->size()) return false;
    if (!spend(budget_steps, a.as_text()->size() / RenderLimits::kBytesPerStep)) return false;
    return a.as_text()->text() == b.as_text()->text();
  }
  if (a.is_list() && b.is_list()) return equal_lists(*a.as_list(), *b.as_list(), budget_steps);
  if (a.is_dict() && b.is_dict()) return equal_dicts(*a.as_dict(), *b.as_dict(), budget_steps);
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_namespace() != nullptr) return a.as_namespace() == b.as_namespace();
  return false;
}

}  // namespace turnstile::engine
