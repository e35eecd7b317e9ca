#include "gateway/config/quantity.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "policy/quantity.h"

namespace turnstile::gateway {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kSizeUnits{Unit{"GiB", 1U << 30}, Unit{"MiB", 1U << 20}, Unit{"KiB", 1U << 10},
                                Unit{"B", 1}, Unit{"", 1}};

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto duration = policy::parse_duration(text);
  if (!duration) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(*duration);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto unit = std::ranges::find(kSizeUnits, name, &Unit::name);
  if (unit == kSizeUnits.end()) return std::nullopt;
  if (number > std::numeric_limits<std::int64_t>::max() / unit->factor) return std::nullopt;
  return number * unit->factor;
}

std::optional<std::string> meant_size(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(std::min(text.find_first_not_of(' ', digits),
                                                     text.size()));
  if (digits == 0 || unit.empty() || unit.size() > 3) return std::nullopt;
  const int letter = std::toupper(static_cast<unsigned char>(unit.front()));
  for (const Unit& known : kSizeUnits) {
    if (!known.name.empty() && known.name.front() == letter) {
      return std::string(text.substr(0, digits)).append(known.name);
    }
  }
  return std::nullopt;
}

std::string duration_text(std::chrono::milliseconds duration) {
  return policy::duration_text(duration);
}

std::string size_text(std::uint64_t bytes) {
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.factor == 0 && bytes != 0) {
      return std::to_string(bytes / unit.factor) + std::string(unit.name);
    }
  }
  return "0B";
}

}  // namespace turnstile::gateway
