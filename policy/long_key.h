// long_key.h: refuses TOML texts that would end the process inside the TOML library.
//
// toml++ recurses once per part of a dotted key, so a key of a hundred thousand parts overflows the
// stack. Every reader of a TOML text asks here first.
//
// Pure; one pass. May take text in a string of several lines for a key, never the other way round.
// Tests: tests/policy/policy_file_test.cpp, tests/gateway/config_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace turnstile::policy {

inline constexpr std::size_t kMaxKeyParts = 16;

// The line, from 1, of a key with more than kMaxKeyParts parts.
std::optional<std::uint32_t> find_long_key(std::string_view text);

}  // namespace turnstile::policy
