// routes.h: which target means what. The whole table; everything else is 404 after the key.
//
// Targets are compared byte for byte: nothing is decoded, no query, no second spelling, so that the
// check of the key and the choice of the handler can never see different paths.
//
// Thread: any; pure functions.
// Tests:  tests/gateway/plain_routes_test.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/http/http_reader.h"

namespace turnstile::gateway {

enum class Route : std::uint8_t {
  ChatCompletions,
  Completions,
  Models,
  Model,
  Tokenize,
  Detokenize,
  Health,
  Livez,
  Readyz,
  Metrics,
  AdminDrain,
  NotFound
};

enum class ListenerKind : std::uint8_t { Public, Admin };

struct RouteMatch {
  Route route = Route::NotFound;
  std::string_view name;     // a literal for records, such as "/v1/chat/completions"
  std::string_view allowed;  // "POST", "GET, HEAD": the methods that the route knows
  std::string_view argument;  // Model: what follows "/v1/models/"

  bool allows(Method method) const;
  bool is_open_to_all() const;  // health
  bool generates() const;
};

RouteMatch find_route(ListenerKind listener, std::string_view target);

}  // namespace turnstile::gateway
