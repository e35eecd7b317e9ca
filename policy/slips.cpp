#include "policy/slips.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "policy/instant.h"
#include "policy/quantity.h"

namespace turnstile::policy {
namespace {

// Long garbage is not even compared.
constexpr std::size_t kLongestName = 64;

// What OpenAI, vLLM, LiteLLM and others call it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOtherNames = {{
    {"tpm", "tokens_per_minute"},
    {"tpm_limit", "tokens_per_minute"},
    {"rpm", "requests_per_minute"},
    {"rpm_limit", "requests_per_minute"},
    {"max_parallel_requests", "inflight"},
    {"max_num_seqs", "inflight"},
    {"concurrency", "inflight"},
    {"max_tokens", "max_output_tokens"},
    {"max_completion_tokens", "max_output_tokens"},
    {"max_prompt_tokens", "max_input_tokens"},
    {"priority", "rank"},
    {"department", "dept"},
}};

struct UsualUnit {
  std::string_view name;
  double ms;
};
constexpr std::array<UsualUnit, 19> kUnits = {{
    {"ms", 1},         {"msec", 1},        {"millis", 1},       {"milliseconds", 1},
    {"s", 1e3},        {"sec", 1e3},       {"secs", 1e3},       {"second", 1e3},
    {"seconds", 1e3},  {"m", 60e3},        {"min", 60e3},       {"mins", 60e3},
    {"minutes", 60e3}, {"h", 3600e3},      {"hr", 3600e3},      {"hours", 3600e3},
    {"d", 86'400e3},   {"day", 86'400e3},  {"days", 86'400e3},
}};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), lower);
  return lowered;
}

std::string without_spaces(std::string_view text) {
  std::string kept(text);
  std::erase_if(kept, [](char c) { return c == ' ' || c == '_' || c == ','; });
  return kept;
}

// Edit distance in which two neighbours that changed places count once (optimal string alignment,
// Damerau 1964): swapped letters are the commonest slip.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// "class" of "classes", "chat" of "chat-small", "minute_tokens" of nothing.
bool begins(std::string_view name, std::string_view whole) {
  return name.size() >= 3 && whole.starts_with(name);
}

// A number and what stands behind it.
std::optional<std::pair<double, std::string_view>> leading_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  return std::pair(number, std::string_view(rest, static_cast<std::size_t>(end - rest)));
}

std::optional<std::string> duration_of_ms(double ms) {
  constexpr double kMost = 1e12;
  const double whole = std::round(ms);
  if (whole < 1 || whole > kMost || std::abs(ms - whole) > 1e-6) return std::nullopt;
  return duration_text(std::chrono::milliseconds(static_cast<std::int64_t>(whole)));
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  if (name.size() > kLongestName) return {};
  const std::string written = lower_case(name);
  // A key that is nothing like a known one gets no suggestion.
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(written, lower_case(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() && best_distance <= 1) return best;
  for (const auto& [other, ours] : kOtherNames) {
    const auto it = std::ranges::find(known, ours);
    if (written == other && it != known.end()) return *it;
  }
  if (!best.empty()) return best;
  std::size_t begun = 0;
  for (const std::string_view candidate : known) {
    if (!begins(written, lower_case(candidate))) continue;
    best = candidate;
    begun += 1;
  }
  return begun == 1 ? best : std::string_view{};
}

std::optional<std::string> meant_count(std::string_view text) {
  std::string meant = without_spaces(text);
  if (meant.empty()) return std::nullopt;
  switch (meant.back()) {
    case 'K': meant.back() = 'k'; break;
    case 'm': meant.back() = 'M'; break;
    case 'g': meant.back() = 'G'; break;
    default: break;
  }
  if (!parse_count(meant)) return std::nullopt;
  return meant;
}

std::optional<std::string> meant_duration(std::string_view text) {
  const std::string meant = lower_case(without_spaces(text));
  const auto number = leading_number(meant);
  if (!number) return std::nullopt;
  const auto& [amount, unit] = *number;
  if (unit.empty()) return meant_duration(amount);
  const auto it = std::ranges::find(kUnits, unit, &UsualUnit::name);
  if (it == kUnits.end()) return std::nullopt;
  return duration_of_ms(amount * it->ms);
}

std::optional<std::string> meant_duration(double seconds) { return duration_of_ms(seconds * 1e3); }

std::optional<double> meant_share(std::string_view text) {
  const std::string meant = without_spaces(text);
  const auto number = leading_number(meant);
  if (!number) return std::nullopt;
  const auto& [amount, unit] = *number;
  if (unit == "%") return amount / 100;
  if (!unit.empty()) return std::nullopt;
  return amount > 1 ? meant_share(amount) : amount;
}

// What lies between one and two is a slip of another kind.
std::optional<double> meant_share(double number) {
  if (number < 2 || number > 100) return std::nullopt;
  return number / 100;
}

std::optional<bool> meant_boolean(std::string_view text) {
  const std::string meant = lower_case(text);
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (meant == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (meant == no) return false;
  }
  return std::nullopt;
}

}  // namespace turnstile::policy
