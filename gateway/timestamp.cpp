#include "gateway/timestamp.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace turnstile::gateway {
namespace {

using std::chrono::sys_days;

// Whole years of what 64 bits of nanoseconds around 1970 hold.
constexpr sys_days kFirstDay{std::chrono::year(1678) / 1 / 1};
constexpr sys_days kLastDay{std::chrono::year(2261) / 12 / 31};

void put(char* at, std::uint64_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) {
    at[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

// Takes exactly `digits` digits off the front of `text`.
std::optional<int> take(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::microseconds> take_time_of_day(std::string_view& text) {
  const auto hour = take(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take(text, 2);
  if (!minute || !take(text, ":")) return std::nullopt;
  const auto second = take(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  std::int64_t microseconds = 0;
  if (take(text, ".")) {
    std::int64_t unit = 100'000;
    bool has_digit = false;
    while (const auto digit = take(text, 1)) {
      microseconds += *digit * unit;
      unit /= 10;
      has_digit = true;
    }
    if (!has_digit) return std::nullopt;
  }
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
         std::chrono::microseconds(microseconds);
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take(text, "Zz")) return std::chrono::minutes(0);
  const bool is_west = !text.empty() && text.front() == '-';
  if (!take(text, "+-")) return std::nullopt;
  const auto hour = take(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take(text, 2);
  if (!minute || *hour > 23 || *minute > 59) return std::nullopt;
  const auto east = std::chrono::hours(*hour) + std::chrono::minutes(*minute);
  return is_west ? -east : east;
}

}  // namespace

void append_timestamp(std::string& out, WallTime time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const auto since_midnight = floor<microseconds>(time - day);
  const hh_mm_ss clock{since_midnight};
  std::array<char, 27> text{'0', '0', '0', '0', '-', '0', '0', '-', '0', '0', 'T', '0', '0', ':',
                            '0', '0', ':', '0', '0', '.', '0', '0', '0', '0', '0', '0', 'Z'};
  put(&text[0], static_cast<std::uint64_t>(static_cast<int>(date.year())), 4);
  put(&text[5], static_cast<unsigned>(date.month()), 2);
  put(&text[8], static_cast<unsigned>(date.day()), 2);
  put(&text[11], static_cast<std::uint64_t>(clock.hours().count()), 2);
  put(&text[14], static_cast<std::uint64_t>(clock.minutes().count()), 2);
  put(&text[17], static_cast<std::uint64_t>(clock.seconds().count()), 2);
  put(&text[20], static_cast<std::uint64_t>(clock.subseconds().count()), 6);
  out.append(text.data(), text.size());
}

std::string timestamp(WallTime time) {
  std::string text;
  append_timestamp(text, time);
  return text;
}

std::optional<WallTime> parse_timestamp(std::string_view text) {
  using namespace std::chrono;
  const auto year_number = take(text, 4);
  if (!year_number || !take(text, "-")) return std::nullopt;
  const auto month_number = take(text, 2);
  if (!month_number || !take(text, "-")) return std::nullopt;
  const auto day_number = take(text, 2);
  if (!day_number) return std::nullopt;
  const year_month_day date{year(*year_number), month(static_cast<unsigned>(*month_number)),
                            day(static_cast<unsigned>(*day_number))};
  if (!date.ok()) return std::nullopt;
  const WallTime midnight{std::clamp(sys_days{date}, kFirstDay, kLastDay)};
  if (text.empty()) return midnight;

  if (!take(text, "Tt ")) return std::nullopt;
  const auto time_of_day = take_time_of_day(text);
  if (!time_of_day) return std::nullopt;
  const auto east = take_offset(text);
  if (!east || !text.empty()) return std::nullopt;
  return midnight + *time_of_day - *east;
}

}  // namespace turnstile::gateway
