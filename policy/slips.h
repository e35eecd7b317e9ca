// slips.h: what an admin who wrote something else probably meant.
//
// For the "did you mean" of a message only: nothing here is ever used as a value. What has no
// likely meaning gets no suggestion, because a wrong one misleads.
//
// Pure. Tests: tests/policy/policy_message_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace turnstile::policy {

// The one of `known` that a name is nearest to: letters that are wrong, missing, too many or have
// changed places, other case, a beginning or words of only one of them, or the name that other
// products have for it ("rpm"). Empty when none is near enough.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

// Texts that parse_count() and parse_duration() do not take: "40m", "60 k"; "2 s", "1.5s", "2sec",
// "1d". And numbers without their unit, which are seconds. The answers are texts that they take.
std::optional<std::string> meant_count(std::string_view text);
std::optional<std::string> meant_duration(std::string_view text);
std::optional<std::string> meant_duration(double seconds);

// A share written as a percentage or as a text: "80%", "0.8", 80.
std::optional<double> meant_share(std::string_view text);
std::optional<double> meant_share(double number);

// "yes", "on", 1 and their opposites.
std::optional<bool> meant_boolean(std::string_view text);

}  // namespace turnstile::policy
