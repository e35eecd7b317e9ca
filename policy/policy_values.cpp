#include "policy/policy_values.h"

#include <cmath>
#include <utility>

#include "policy/quantity.h"
#include "policy/slips.h"

namespace turnstile::policy {
namespace {

using Kind = DocumentValue::Kind;

// `meant`: what would have been right, as it should be written.
void wrong(const DocumentValue& value, std::string_view path, std::string_view expected,
           PolicyNotes& notes, const std::optional<std::string>& meant = std::nullopt) {
  std::string message(path);
  message += " must be ";
  message += expected;
  if (meant) {
    message += "; did you mean ";
    message += *meant;
    message += '?';
  }
  notes.error(value.at, std::move(message));
}

std::optional<std::string> meant_number(const DocumentValue& value) {
  if (value.kind == Kind::Text) {
    const auto meant = meant_count(value.text);
    return meant ? std::optional('"' + *meant + '"') : std::nullopt;
  }
  constexpr double kMost = 1e15;
  if (value.kind == Kind::Real && std::abs(value.real) <= kMost &&
      value.real == std::floor(value.real)) {
    return std::to_string(std::llround(value.real));
  }
  return std::nullopt;
}

// A share in parts of 1/`parts`, if it is one.
std::optional<std::string> meant_fraction(const DocumentValue& value, std::int64_t parts,
                                          std::int64_t least_parts, std::int64_t most_parts) {
  std::optional<double> share;
  if (value.kind == Kind::Text) share = meant_share(value.text);
  if (value.kind == Kind::Integer) share = meant_share(static_cast<double>(value.integer));
  if (value.kind == Kind::Real) share = meant_share(value.real);
  const double scaled = share.value_or(-1) * static_cast<double>(parts);
  // No suggestion that is wrong too, or in which digits were lost.
  if (!(scaled >= static_cast<double>(least_parts) && scaled <= static_cast<double>(most_parts)) ||
      std::abs(scaled - std::round(scaled)) > 1e-6) {
    return std::nullopt;
  }
  return as_decimal(std::llround(scaled), parts);
}

std::string between(std::string_view what, const std::string& least, const std::string& most) {
  std::string text(what);
  text += " from ";
  text += least;
  text += " to ";
  text += most;
  return text;
}

}  // namespace

std::string as_decimal(std::int64_t numerator, std::int64_t parts) {
  std::string text = std::to_string(numerator / parts);
  std::string digits = std::to_string(parts + numerator % parts).substr(1);
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  if (!digits.empty()) {
    text += '.';
    text += digits;
  }
  return text;
}

std::optional<std::int64_t> read_count(const DocumentValue& value, std::string_view path,
                                       std::int64_t least, std::int64_t most, PolicyNotes& notes) {
  std::optional<std::int64_t> count;
  if (value.kind == Kind::Integer) count = value.integer;
  if (value.kind == Kind::Text) count = parse_count(value.text);
  if (!count) {
    wrong(value, path, "a whole number or a text such as \"40M\"", notes, meant_number(value));
    return std::nullopt;
  }
  if (*count < least || *count > most) {
    wrong(value, path, between("a number", std::to_string(least), std::to_string(most)), notes);
    return std::nullopt;
  }
  return count;
}

std::optional<Duration> read_duration(const DocumentValue& value, std::string_view path,
                                      PolicyNotes& notes) {
  std::optional<Duration> duration;
  if (value.kind == Kind::Text) duration = parse_duration(value.text);
  if (!duration) {
    std::optional<std::string> meant;
    if (value.kind == Kind::Text) meant = meant_duration(value.text);
    if (value.kind == Kind::Integer) meant = meant_duration(static_cast<double>(value.integer));
    if (value.kind == Kind::Real) meant = meant_duration(value.real);
    const auto length = meant ? parse_duration(*meant) : std::nullopt;
    if (!length || *length > kLongestDuration) meant.reset();
    if (meant) meant = '"' + *meant + '"';
    wrong(value, path, "a duration such as \"800ms\", \"2s\", \"10m\" or \"24h\"", notes, meant);
    return std::nullopt;
  }
  if (*duration < std::chrono::milliseconds(1) || *duration > kLongestDuration) {
    wrong(value, path, "a duration from 1ms to 168h", notes);
    return std::nullopt;
  }
  return duration;
}

std::optional<std::int64_t> read_fraction(const DocumentValue& value, std::string_view path,
                                          std::int64_t parts, std::int64_t least_parts,
                                          std::int64_t most_parts, PolicyNotes& notes) {
  double number = 0;
  if (value.kind == Kind::Integer) {
    number = static_cast<double>(value.integer);
  } else if (value.kind == Kind::Real) {
    number = value.real;
  } else {
    wrong(value, path, "a number", notes,
          meant_fraction(value, parts, least_parts, most_parts));
    return std::nullopt;
  }
  const double scaled = number * static_cast<double>(parts);
  const bool in_range = scaled >= static_cast<double>(least_parts) - 0.5 &&
                        scaled <= static_cast<double>(most_parts) + 0.5;  // false for NaN
  const std::int64_t rounded = in_range ? std::llround(scaled) : 0;
  if (!in_range || rounded < least_parts || rounded > most_parts) {
    wrong(value, path,
          between("a number", as_decimal(least_parts, parts), as_decimal(most_parts, parts)),
          notes, most_parts <= parts ? meant_fraction(value, parts, least_parts, most_parts)
                                     : std::nullopt);
    return std::nullopt;
  }
  return rounded;
}

std::optional<bool> read_boolean(const DocumentValue& value, std::string_view path,
                                 PolicyNotes& notes) {
  if (value.kind == Kind::Boolean) return value.boolean;
  std::optional<bool> meant;
  if (value.kind == Kind::Text) meant = meant_boolean(value.text);
  if (value.kind == Kind::Integer) meant = meant_boolean(std::to_string(value.integer));
  wrong(value, path, "true or false", notes,
        meant ? std::optional<std::string>(*meant ? "true" : "false") : std::nullopt);
  return std::nullopt;
}

std::optional<std::string> read_text(const DocumentValue& value, std::string_view path,
                                     PolicyNotes& notes) {
  if (value.kind == Kind::Text) return value.text;
  wrong(value, path, "a text", notes);
  return std::nullopt;
}

std::optional<std::vector<std::string>> read_text_list(const DocumentValue& value,
                                                       std::string_view path, PolicyNotes& notes) {
  if (value.kind != Kind::Array) {
    wrong(value, path, "a list of texts", notes);
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const DocumentValue& element : value.elements) {
    if (element.kind != Kind::Text) {
      wrong(element, path, "a list of texts", notes);
      return std::nullopt;
    }
    texts.push_back(element.text);
  }
  return texts;
}

bool is_table(const DocumentValue& value, std::string_view path, PolicyNotes& notes) {
  if (value.kind == Kind::Table) return true;
  wrong(value, path, "a table", notes);
  return false;
}

}  // namespace turnstile::policy
