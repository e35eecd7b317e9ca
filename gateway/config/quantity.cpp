#include "gateway/config/quantity.h"

#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace turnstile::gateway {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kDurationUnits{Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1'000},
                                    Unit{"ms", 1}};
constexpr std::array kSizeUnits{Unit{"GiB", 1U << 30}, Unit{"MiB", 1U << 20}, Unit{"KiB", 1U << 10},
                                Unit{"B", 1}};
constexpr std::array kCountUnits{Unit{"G", 1'000'000'000}, Unit{"M", 1'000'000}, Unit{"k", 1'000},
                                 Unit{"", 1}};

std::optional<std::uint64_t> parse(std::string_view text, std::span<const Unit> units) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (name != unit.name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

std::string text_of(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value % unit.factor == 0 && value != 0) {
      return std::to_string(value / unit.factor) + std::string(unit.name);
    }
  }
  return "0" + std::string(units.back().name);
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto ms = parse(text, kDurationUnits);
  if (!ms) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*ms));
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  if (const auto bytes = parse(text, kSizeUnits)) return bytes;
  return parse(text, std::array{Unit{"", 1}});
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  return parse(text, kCountUnits);
}

std::string duration_text(std::chrono::milliseconds duration) {
  return text_of(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string size_text(std::uint64_t bytes) { return text_of(bytes, kSizeUnits); }

}  // namespace turnstile::gateway
