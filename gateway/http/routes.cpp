#include "gateway/http/routes.h"

namespace turnstile::gateway {
namespace {

constexpr std::string_view kPost = "POST";
constexpr std::string_view kGet = "GET, HEAD";
constexpr std::string_view kModelPrefix = "/v1/models/";

constexpr RouteMatch kHealthRoutes[] = {
    {Route::Health, "/health", kGet, {}},
    {Route::Livez, "/livez", kGet, {}},
    {Route::Readyz, "/readyz", kGet, {}},
};
constexpr RouteMatch kPublicRoutes[] = {
    {Route::ChatCompletions, "/v1/chat/completions", kPost, {}},
    {Route::Completions, "/v1/completions", kPost, {}},
    {Route::Models, "/v1/models", kGet, {}},
    {Route::Tokenize, "/tokenize", kPost, {}},
    {Route::Detokenize, "/detokenize", kPost, {}},
};
constexpr RouteMatch kAdminRoutes[] = {
    {Route::Metrics, "/metrics", kGet, {}},
    {Route::AdminDrain, "/admin/drain", kPost, {}},
};

template <std::size_t N>
const RouteMatch* find(const RouteMatch (&table)[N], std::string_view target) {
  for (const RouteMatch& route : table) {
    if (route.name == target) return &route;
  }
  return nullptr;
}

}  // namespace

bool RouteMatch::allows(Method method) const {
  switch (method) {
    case Method::Get:
    case Method::Head: return allowed == kGet;
    case Method::Post: return allowed == kPost;
    case Method::Options:
    case Method::Other: return false;
  }
  return false;
}

bool RouteMatch::is_open_to_all() const {
  return route == Route::Health || route == Route::Livez || route == Route::Readyz;
}

bool RouteMatch::generates() const {
  return route == Route::ChatCompletions || route == Route::Completions;
}

RouteMatch find_route(ListenerKind listener, std::string_view target) {
  if (const RouteMatch* route = find(kHealthRoutes, target)) return *route;
  if (listener == ListenerKind::Admin) {
    const RouteMatch* route = find(kAdminRoutes, target);
    return route != nullptr ? *route : RouteMatch{};
  }
  if (const RouteMatch* route = find(kPublicRoutes, target)) return *route;
  if (target.size() > kModelPrefix.size() && target.starts_with(kModelPrefix)) {
    return {Route::Model, kModelPrefix, kGet, target.substr(kModelPrefix.size())};
  }
  return {};
}

}  // namespace turnstile::gateway
