#include "engine/template/civil_time.h"

#include <array>
#include <cstdlib>

namespace turnstile::engine {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kWeekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                       "Thursday", "Friday", "Saturday"};
constexpr std::array<int, 12> kDaysBeforeMonth = {0,   31,  59,  90,  120, 151,
                                                  181, 212, 243, 273, 304, 334};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int day_of_year(const CivilTime& time) {
  const bool after_leap_day = time.month > 2 && is_leap(time.year);
  return kDaysBeforeMonth[static_cast<std::size_t>(time.month - 1)] + time.day +
         (after_leap_day ? 1 : 0);
}

// 0 is Sunday. 1 January of year 1 was a Monday.
int weekday(const CivilTime& time) {
  const int years = time.year - 1;
  return (years + years / 4 - years / 100 + years / 400 + day_of_year(time)) % 7;
}

void append_number(int value, std::size_t width, char padding, std::string& out) {
  const std::string digits = std::to_string(value);
  if (padding != '\0' && digits.size() < width) out.append(width - digits.size(), padding);
  out += digits;
}

}  // namespace

std::optional<std::string> format_time(const CivilTime& time, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    char padding = '0';
    if (++i < format.size() && format[i] == '-') {
      padding = '\0';
      ++i;
    }
    if (i >= format.size()) return std::nullopt;
    const auto month = kMonths[static_cast<std::size_t>(time.month - 1)];
    const auto day_name = kWeekdays[static_cast<std::size_t>(weekday(time))];
    const int hour12 = time.hour % 12 == 0 ? 12 : time.hour % 12;
    switch (format[i]) {
      case 'Y':
        append_number(time.year, 4, padding, out);
        break;
      case 'y':
        append_number(time.year % 100, 2, padding, out);
        break;
      case 'm':
        append_number(time.month, 2, padding, out);
        break;
      case 'd':
        append_number(time.day, 2, padding, out);
        break;
      case 'e':
        append_number(time.day, 2, padding == '\0' ? '\0' : ' ', out);
        break;
      case 'j':
        append_number(day_of_year(time), 3, padding, out);
        break;
      case 'H':
        append_number(time.hour, 2, padding, out);
        break;
      case 'I':
        append_number(hour12, 2, padding, out);
        break;
      case 'M':
        append_number(time.minute, 2, padding, out);
        break;
      case 'S':
        append_number(time.second, 2, padding, out);
        break;
      case 'p':
        out += time.hour < 12 ? "AM" : "PM";
        break;
      case 'B':
        out += month;
        break;
      case 'b':
        out += month.substr(0, 3);
        break;
      case 'A':
        out += day_name;
        break;
      case 'a':
        out += day_name.substr(0, 3);
        break;
      case 'F':
        out += *format_time(time, "%Y-%m-%d");
        break;
      case 'T':
        out += *format_time(time, "%H:%M:%S");
        break;
      case 'D':
        out += *format_time(time, "%m/%d/%y");
        break;
      case '%':
        out += '%';
        break;
      default:
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace turnstile::engine
