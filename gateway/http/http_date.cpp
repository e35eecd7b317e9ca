#include "gateway/http/http_date.h"

#include <algorithm>

namespace turnstile::gateway {
namespace {

constexpr std::string_view kForm = "ddd, 00 mmm 0000 00:00:00 GMT";
constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

void put(char* at, unsigned value, int digits) {
  for (int i = digits - 1; i >= 0; --i) {
    at[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

}  // namespace

std::string_view HttpDate::at(WallTime now) {
  using namespace std::chrono;
  const sys_seconds second = floor<seconds>(now);
  if (second != second_) {
    second_ = second;
    const sys_days day = floor<days>(second);
    const year_month_day date{day};
    const hh_mm_ss clock{second - day};
    static_assert(kForm.size() == std::tuple_size_v<decltype(text_)>);
    std::ranges::copy(kForm, text_.begin());
    std::ranges::copy(kDays.substr(3 * weekday(day).c_encoding(), 3), text_.begin());
    put(&text_[5], static_cast<unsigned>(date.day()), 2);
    std::ranges::copy(kMonths.substr(3 * (static_cast<unsigned>(date.month()) - 1), 3),
                      text_.begin() + 8);
    put(&text_[12], static_cast<unsigned>(static_cast<int>(date.year())), 4);
    put(&text_[17], static_cast<unsigned>(clock.hours().count()), 2);
    put(&text_[20], static_cast<unsigned>(clock.minutes().count()), 2);
    put(&text_[23], static_cast<unsigned>(clock.seconds().count()), 2);
  }
  return {text_.data(), text_.size()};
}

}  // namespace turnstile::gateway
