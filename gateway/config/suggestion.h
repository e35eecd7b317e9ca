// suggestion.h: the known name that a mistyped one probably meant.
//
// Thread: any; pure. Cost: O(names x length^2), for error messages only.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace turnstile::gateway {

// "; perhaps 'max_body' was meant" when a known name is at most a third of its length away
// (Levenshtein, with swapped neighbours as one edit); otherwise an empty text.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

}  // namespace turnstile::gateway
