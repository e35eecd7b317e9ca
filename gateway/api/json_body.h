// json_body.h: the bytes of a request body become a checked JSON document.
//
// After parse() these hold for the whole document, so readers of fields need not ask again:
//   valid UTF-8 in every string, no lone surrogate; no duplicate key in an object; depth, number of
//   keys within JsonLimits; every number finite and every integer within 64 bits; an object at the
//   top; nothing after it.
// A breach is invalid_json with param null: the text is at fault, not a field.
//
// simdjson parses; duplicate keys and surrogates are checked in one walk, because it accepts both.
// Surrogates can only come from an escape, so a body without "\u" is spared the second look at its
// strings.
//
// Thread: I/O. The document lives until the next parse() of the same JsonBody.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <simdjson.h>
#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/api/generation_request.h"

namespace turnstile::gateway {

class JsonBody {
 public:
  explicit JsonBody(const JsonLimits& limits) : limits_(limits) {}

  tl::expected<simdjson::dom::object, ApiError> parse(std::string_view body);

 private:
  tl::expected<void, ApiError> check(simdjson::dom::element element, std::size_t depth,
                                     std::size_t& keys);

  JsonLimits limits_;
  simdjson::dom::parser parser_;
  std::vector<std::string_view> sorted_keys_;
  bool may_hold_surrogates_ = false;
};

// Typed reading of one field; `name` is how messages call it ("messages[0].content").
// A wrong type or range is invalid_value with param `name`.
namespace json_field {

using Element = simdjson::dom::element;

tl::expected<bool, ApiError> boolean(Element value, std::string_view name);
// Integers must be JSON integers: 1.0 is a number, not an integer.
tl::expected<std::int64_t, ApiError> integer(Element value, std::string_view name,
                                             std::int64_t smallest, std::int64_t largest);
// `open_below`: smallest itself is outside.
tl::expected<double, ApiError> number(Element value, std::string_view name, double smallest,
                                      double largest, bool open_below = false);
tl::expected<std::string_view, ApiError> string(Element value, std::string_view name);
tl::expected<simdjson::dom::array, ApiError> array(Element value, std::string_view name);
tl::expected<simdjson::dom::object, ApiError> object(Element value, std::string_view name);

tl::unexpected<ApiError> invalid(std::string_view name, std::string_view expectation);

}  // namespace json_field

}  // namespace turnstile::gateway
