#include "policy/quantity.h"

#include <array>
#include <charconv>

namespace turnstile::policy {
namespace {

struct Unit {
  std::string_view suffix;
  std::int64_t factor;
};

constexpr std::array<Unit, 4> kCountUnits = {{
    {"", 1},
    {"k", 1'000},
    {"M", 1'000'000},
    {"G", 1'000'000'000},
}};

constexpr std::array<Unit, 4> kDurationUnits = {{
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
}};

template <std::size_t N>
std::optional<std::int64_t> parse(std::string_view text, const std::array<Unit, N>& units) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || text.front() == '-') return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& unit : units) {
    if (suffix != unit.suffix) continue;
    if (number > INT64_MAX / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_count(std::string_view text) { return parse(text, kCountUnits); }

std::optional<Duration> parse_duration(std::string_view text) {
  const auto nanoseconds = parse(text, kDurationUnits);
  if (!nanoseconds) return std::nullopt;
  return Duration{*nanoseconds};
}

std::string duration_text(std::chrono::milliseconds duration) {
  const std::int64_t ms = duration.count();
  if (ms == 0) return "0ms";
  if (ms % 3'600'000 == 0) return std::to_string(ms / 3'600'000) + "h";
  if (ms % 60'000 == 0) return std::to_string(ms / 60'000) + "m";
  if (ms % 1'000 == 0) return std::to_string(ms / 1'000) + "s";
  return std::to_string(ms) + "ms";
}

}  // namespace turnstile::policy
