// value.h: what a template computes with.
//
// Python's None, bool, int, float, str, list, tuple and dict, Jinja's undefined and namespace, and
// things that exist only while a template runs (functions, macros, `loop`).
//
// Lists and dicts have reference semantics, as in Python: `append` on one name is seen through the
// other. One rule keeps values acyclic and of bounded depth, so that they are freed without
// recursion problems and printed without cycle checks: a container that becomes part of another one
// is frozen; it can be read, not changed. Namespaces are containers in this sense, with one
// exception: what is stored in their attributes stays as it is until they are frozen themselves,
// and then all of it is frozen too. Values of a request and constants are frozen from the start, so
// that renders share nothing that changes. `depth` counts nested containers.
//
// Thread: a Value may be copied and read on several threads when every container in it is frozen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/template/marked_text.h"

namespace turnstile::engine {

class Value;

struct Undefined {
  const std::string* name = nullptr;  // for messages; lives as long as the template
};
struct None {};

struct ListValue {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_frozen = false;
  std::uint32_t depth = 1;
};

// Keys are strings, numbers, booleans or None, in order of insertion.
struct DictValue {
  std::vector<std::pair<Value, Value>> entries;
  bool is_frozen = false;
  std::uint32_t depth = 1;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};

struct NamespaceValue {
  std::vector<std::pair<std::string, Value>> attributes;
  bool is_frozen = false;
  std::uint32_t depth = 1;  // only once it is frozen
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

enum class BuiltinFunction : std::uint8_t {
  Namespace,
  Range,
  Dict,
  RaiseException,
  StrftimeNow,
  Method,  // a method that was named but not called, e.g. in `x.items is defined`
};

// A macro together with the frame that it was defined in; `frame_serial` tells whether that frame
// is still the one at `frame_index`.
struct MacroValue {
  const struct MacroStatement* macro = nullptr;
  std::uint32_t frame_index = 0;
  std::uint32_t frame_serial = 0;
};

// The variable `loop` of the running loop with this serial.
struct LoopValue {
  std::uint32_t loop_index = 0;
  std::uint32_t loop_serial = 0;
};

class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;
  using List = std::shared_ptr<ListValue>;
  using Dict = std::shared_ptr<DictValue>;
  using Namespace = std::shared_ptr<NamespaceValue>;

  Value() = default;  // undefined
  static Value undefined(const std::string* name) { return Value(Undefined{name}); }
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(value); }
  static Value integer(std::int64_t value) { return Value(value); }
  static Value real(double value) { return Value(value); }
  static Value text(std::string value, Origin origin);
  static Value text(MarkedText value);
  // These freeze the containers among the items. Not frozen itself: see freeze().
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(std::vector<std::pair<Value, Value>> entries);
  static Value new_namespace();
  static Value function(BuiltinFunction function) { return Value(function); }
  static Value macro(MacroValue macro) { return Value(macro); }
  static Value loop(LoopValue loop) { return Value(loop); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_text() const { return std::holds_alternative<Text>(data_); }
  bool is_list() const { return std::holds_alternative<List>(data_); }  // tuples too
  bool is_dict() const { return std::holds_alternative<Dict>(data_); }
  bool is_number() const;  // booleans too, as in Python

  // nullptr or nullopt when it is something else.
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&data_); }
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int() const;  // booleans count as 0 and 1
  std::optional<double> as_real() const;       // any number
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }
  const MarkedText* as_text() const;
  ListValue* as_list() const;
  DictValue* as_dict() const;
  NamespaceValue* as_namespace() const;
  const BuiltinFunction* as_function() const { return std::get_if<BuiltinFunction>(&data_); }
  const MacroValue* as_macro() const { return std::get_if<MacroValue>(&data_); }
  const LoopValue* as_loop() const { return std::get_if<LoopValue>(&data_); }

  // Makes a container, if it is one, unchangeable, with all its parts.
  const Value& freeze() const;
  // Nested containers: 0 for a scalar, 1 for a list of scalars.
  std::uint32_t depth() const;

  bool is_true() const;
  // "str", "list", ... for messages.
  std::string_view type_name() const;

 private:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, Text, List, Dict,
                            Namespace, BuiltinFunction, MacroValue, LoopValue>;
  template <typename T>
  explicit Value(T value) : data_(std::move(value)) {}

  Data data_;
};

// Python's ==. Containers are compared by value; `budget_steps` is reduced by the work and the
// comparison stops (with false) when it is used up: the caller checks.
bool equal(const Value& a, const Value& b, std::uint64_t& budget_steps);

}  // namespace turnstile::engine
