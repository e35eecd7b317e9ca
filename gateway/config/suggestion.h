// suggestion.h: the known name that a mistyped one probably meant.
//
// Thread: any; pure. What counts as near says policy/slips.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace turnstile::gateway {

// "; perhaps 'max_body' was meant", or an empty text when no known name is near.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

}  // namespace turnstile::gateway
