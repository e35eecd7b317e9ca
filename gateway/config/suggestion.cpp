#include "gateway/config/suggestion.h"

#include "policy/slips.h"

namespace turnstile::gateway {

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view meant = policy::nearest_name(name, known);
  if (meant.empty()) return {};
  return "; perhaps '" + std::string(meant) + "' was meant";
}

}  // namespace turnstile::gateway
