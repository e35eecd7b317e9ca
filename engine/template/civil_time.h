// civil_time.h: the date that strftime_now() shows, given by the caller.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace turnstile::engine {

// A date and time of day in the proleptic Gregorian calendar, without a zone.
struct CivilTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;    // 1 to 31
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// Fills in `format` as strftime does in the C locale: %Y %y %m %d %e %j %H %I %M %S %p %B %b %A %a
// %F %T %D %% and the form without padding, as in %-d. nullopt for any other conversion.
std::optional<std::string> format_time(const CivilTime& time, std::string_view format);

}  // namespace turnstile::engine
