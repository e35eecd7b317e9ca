// policy_values.h: typed values out of a policy document.
//
// Each function reads one value or reports why it cannot and leaves the target as it was. `path` is
// the full name of the key, for the sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/instant.h"
#include "policy/policy_document.h"
#include "policy/policy_notes.h"

namespace turnstile::policy {

inline constexpr Duration kLongestDuration = std::chrono::hours(7 * 24);

// An integer, or a text such as "40M", between `least` and `most`.
std::optional<std::int64_t> read_count(const DocumentValue& value, std::string_view path,
                                       std::int64_t least, std::int64_t most, PolicyNotes& notes);

// A text such as "10m", from 1 ms to kLongestDuration.
std::optional<Duration> read_duration(const DocumentValue& value, std::string_view path,
                                      PolicyNotes& notes);

// A number from `least_parts` to `most_parts` parts of 1/`parts`, such as 0.25 in millionths.
// Rounded to the nearest part here, once; accounting sees integers only.
std::optional<std::int64_t> read_fraction(const DocumentValue& value, std::string_view path,
                                          std::int64_t parts, std::int64_t least_parts,
                                          std::int64_t most_parts, PolicyNotes& notes);

std::optional<bool> read_boolean(const DocumentValue& value, std::string_view path,
                                 PolicyNotes& notes);
std::optional<std::string> read_text(const DocumentValue& value, std::string_view path,
                                     PolicyNotes& notes);
std::optional<std::vector<std::string>> read_text_list(const DocumentValue& value,
                                                       std::string_view path, PolicyNotes& notes);

// Takes over what one of these functions read.
template <typename T>
void assign(T& target, std::optional<T> value) {
  if (value) target = std::move(*value);
}

// A fraction in decimal notation for messages, without trailing zeros.
std::string as_decimal(std::int64_t numerator, std::int64_t parts);

// False, with an error, when the value is not a table.
bool is_table(const DocumentValue& value, std::string_view path, PolicyNotes& notes);

}  // namespace turnstile::policy
