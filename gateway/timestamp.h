// timestamp.h: points in time as text: RFC 3339, UTC, microseconds ("2026-08-25T09:15:03.000123Z").
//
// Thread: any; pure functions. Cost: no locale, no time zone database; well under a microsecond.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/clock.h"

namespace turnstile::gateway {

void append_timestamp(std::string& out, WallTime time);
std::string timestamp(WallTime time);

// Takes "2026-08-25" (midnight UTC) and RFC 3339 with "Z" or an offset, with or without fractions.
// A day before 1678 or after 2261 does not fit a WallTime and is the first or last that does:
// "9999-12-31" stays in the future.
std::optional<WallTime> parse_timestamp(std::string_view text);

}  // namespace turnstile::gateway
