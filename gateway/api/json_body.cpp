#include "gateway/api/json_body.h"

#include <algorithm>
#include <limits>
#include <string>

namespace turnstile::gateway {
namespace {

namespace dom = simdjson::dom;

tl::unexpected<ApiError> invalid_json(std::string message) {
  return tl::unexpected(make_error(ApiCode::InvalidJson, std::move(message)));
}

tl::unexpected<ApiError> too_deep(const JsonLimits& limits) {
  return invalid_json("The body is nested deeper than " + std::to_string(limits.max_depth) +
                      " levels.");
}

tl::unexpected<ApiError> parse_failure(simdjson::error_code code, const JsonLimits& limits) {
  switch (code) {
    case simdjson::DEPTH_ERROR:
      return too_deep(limits);
    case simdjson::UTF8_ERROR:
      return invalid_json("The body is not valid UTF-8.");
    case simdjson::STRING_ERROR:
      return invalid_json("A string holds an invalid escape or an unpaired surrogate.");
    case simdjson::NUMBER_ERROR:
      return invalid_json(
          "A number is malformed, not finite or an integer of more than 64 bits.");
    case simdjson::EMPTY:
      return invalid_json("The body is empty; send a JSON object.");
    default:
      return invalid_json("The body is not valid JSON.");
  }
}

// simdjson decodes an escaped surrogate without its partner to three bytes that no UTF-8 has.
bool valid_string(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

// Any order does to bring equal keys together; this one seldom looks at the bytes.
bool shorter(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

tl::expected<dom::object, ApiError> JsonBody::parse(std::string_view body) {
  // simdjson bounds its own stack; empty containers do not count there, so check() counts levels.
  if (parser_.max_depth() != limits_.max_depth + 1 || parser_.capacity() < body.size()) {
    if (const auto code = parser_.allocate(std::max(body.size(), parser_.capacity()),
                                           limits_.max_depth + 1)) {
      return parse_failure(code, limits_);
    }
  }
  dom::element root;
  if (const auto code = parser_.parse(body.data(), body.size()).get(root)) {
    return parse_failure(code, limits_);
  }
  dom::object object;
  if (root.get(object)) return invalid_json("The body must be a JSON object.");
  may_hold_surrogates_ = body.find("\\u") != std::string_view::npos;
  std::size_t keys = 0;
  if (auto checked = check(root, 1, keys); !checked) return tl::unexpected(checked.error());
  return object;
}

tl::expected<void, ApiError> JsonBody::check(dom::element element, std::size_t depth,
                                           std::size_t& keys) {
  if ((element.is_array() || element.is_object()) && depth > limits_.max_depth) {
    return too_deep(limits_);
  }
  switch (element.type()) {
    case dom::element_type::STRING:
      if (may_hold_surrogates_ && !valid_string(element.get_string().value_unsafe())) {
        return invalid_json("A string holds an unpaired surrogate.");
      }
      return {};
    case dom::element_type::ARRAY: {
      const dom::array array = element.get_array().value_unsafe();
      for (const dom::element item : array) {
        if (item.is_number()) continue;  // prompts of token ids
        if (auto checked = check(item, depth + 1, keys); !checked) return checked;
      }
      return {};
    }
    case dom::element_type::OBJECT: {
      const dom::object object = element.get_object().value_unsafe();
      sorted_keys_.clear();
      for (const dom::key_value_pair field : object) {
        if (++keys > limits_.max_keys) {
          return invalid_json("The body has more than " + std::to_string(limits_.max_keys) +
                              " keys.");
        }
        if (may_hold_surrogates_ && !valid_string(field.key)) {
          return invalid_json("A key holds an unpaired surrogate.");
        }
        sorted_keys_.push_back(field.key);
      }
      std::sort(sorted_keys_.begin(), sorted_keys_.end(), shorter);
      if (std::adjacent_find(sorted_keys_.begin(), sorted_keys_.end()) != sorted_keys_.end()) {
        return invalid_json("An object has the same key twice.");
      }
      for (const dom::key_value_pair field : object) {
        if (auto checked = check(field.value, depth + 1, keys); !checked) return checked;
      }
      return {};
    }
    default:
      return {};
  }
}

namespace json_field {

tl::unexpected<ApiError> invalid(std::string_view name, std::string_view expectation) {
  std::string message(name);
  message += ' ';
  message += expectation;
  message += '.';
  return tl::unexpected(make_error(ApiCode::InvalidValue, std::move(message), std::string(name)));
}

namespace {

std::string decimal(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

tl::expected<bool, ApiError> boolean(Element value, std::string_view name) {
  bool result = false;
  if (value.get(result)) return invalid(name, "must be true or false");
  return result;
}

tl::expected<std::int64_t, ApiError> integer(Element value, std::string_view name,
                                             std::int64_t smallest, std::int64_t largest) {
  std::int64_t result = 0;
  if (!value.get(result) && result >= smallest && result <= largest) return result;
  // Nobody is told of 2^63 whose number is not beyond it, unless the field takes all of them.
  const bool is_beyond = value.type() == dom::element_type::UINT64;
  using Limits = std::numeric_limits<std::int64_t>;
  const std::string least = std::to_string(smallest);
  if (largest == Limits::max() && smallest != Limits::min() && !is_beyond) {
    return invalid(name, "must be an integer of at least " + least);
  }
  return invalid(name, "must be an integer from " + least + " to " + std::to_string(largest));
}

tl::expected<double, ApiError> number(Element value, std::string_view name, double smallest,
                                      double largest, bool open_below) {
  double result = 0;
  if (!value.is_number() || value.get(result)) return invalid(name, "must be a number");
  const bool in_range =
      result <= largest && (open_below ? result > smallest : result >= smallest);
  if (!in_range) {
    return invalid(name, (open_below ? "must be a number above " : "must be a number from ") +
                             decimal(smallest) + (open_below ? " and at most " : " to ") +
                             decimal(largest));
  }
  return result;
}

tl::expected<std::string_view, ApiError> string(Element value, std::string_view name) {
  std::string_view result;
  if (value.get(result)) return invalid(name, "must be a string");
  return result;
}

tl::expected<simdjson::dom::array, ApiError> array(Element value, std::string_view name) {
  simdjson::dom::array result;
  if (value.get(result)) return invalid(name, "must be an array");
  return result;
}

tl::expected<simdjson::dom::object, ApiError> object(Element value, std::string_view name) {
  simdjson::dom::object result;
  if (value.get(result)) return invalid(name, "must be an object");
  return result;
}

}  // namespace json_field

}  // namespace turnstile::gateway
