// config_values.h: text or TOML value to a setting's field, and back to text.
//
// One set of rules for the file and for flags: assign_text() takes what a flag or a TOML string
// holds. The error is the end of a sentence that starts with the setting's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/config/config_table.h"

namespace turnstile::gateway {

// As in policies. The name stands in every record of a request, so it is bounded.
inline constexpr std::size_t kMaxModelNameBytes = 128;

using Assigned = tl::expected<void, std::string>;

Assigned assign_address(std::string_view text, ListenAddress& field);
Assigned assign_duration(std::string_view text, Milliseconds& field, Range ms);
Assigned assign_size(std::string_view text, std::size_t& field, Range bytes);
Assigned assign_count(std::string_view text, std::uint32_t& field, Range range);
Assigned assign_boolean(std::string_view text, bool& field);
// UTF-8 without control characters: names stand in JSON and in metrics, a path would end at the
// first zero, and terminals would obey a name.
Assigned assign_text(std::string_view text, std::string& field);
Assigned assign_audit_mode(std::string_view text, AuditMode& field);

// The same for a TOML integer.
Assigned assign_size(std::int64_t number, std::size_t& field, Range bytes);
Assigned assign_count(std::int64_t number, std::uint32_t& field, Range range);

}  // namespace turnstile::gateway
