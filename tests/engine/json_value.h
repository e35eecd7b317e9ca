// json_value.h: a JSON document as a template's value, every string as the client's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "engine/template/value.h"

namespace turnstile::engine {

inline Value value_of_json(simdjson::dom::element element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY: {
      std::vector<Value> items;
      for (const simdjson::dom::element item : simdjson::dom::array(element)) {
        items.push_back(value_of_json(item));
      }
      return Value::list(std::move(items));
    }
    case simdjson::dom::element_type::OBJECT: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto field : simdjson::dom::object(element)) {
        entries.emplace_back(Value::text(std::string(field.key), Origin::Client),
                             value_of_json(field.value));
      }
      return Value::dict(std::move(entries));
    }
    case simdjson::dom::element_type::INT64:
      return Value::integer(std::int64_t(element));
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      return Value::real(double(element));
    case simdjson::dom::element_type::STRING:
      return Value::text(std::string(std::string_view(element)), Origin::Client);
    case simdjson::dom::element_type::BOOL:
      return Value::boolean(bool(element));
    case simdjson::dom::element_type::NULL_VALUE:
      break;
  }
  return Value::none();
}

}  // namespace turnstile::engine
