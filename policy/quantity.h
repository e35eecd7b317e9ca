// quantity.h: numbers with a unit as admins write them.
//
// Counts may carry a decimal suffix: "2k" is 2,000, "40M" 40,000,000, "1G" 1,000,000,000. Durations
// always carry a unit: "800ms", "2s", "10m", "24h". Only whole numbers; no sign, no spaces.
//
// Pure. Errors: nullopt for anything else, and for values that do not fit 64 bits.
// Tests: tests/policy/quantity_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/instant.h"

namespace turnstile::policy {

std::optional<std::int64_t> parse_count(std::string_view text);
std::optional<Duration> parse_duration(std::string_view text);

// Whole milliseconds as parse_duration() takes them, in the largest unit of which they are a whole
// number: "2s", "1500ms", "24h".
std::string duration_text(std::chrono::milliseconds duration);

}  // namespace turnstile::policy
