// toml_text.h: text to TOML table, with an error that has a place.
//
// Included by the readers of turnstile.toml and keys.toml only: toml++ is a heavy header.
//
// Limits: a file over kMaxTomlBytes or a key of too many parts (policy/long_key.h) is refused
// before it is parsed; what the library gives up on is an error too (policy/toml_library.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/config/config.h"
#include "policy/toml_library.h"

namespace turnstile::gateway {

inline constexpr std::size_t kMaxTomlBytes = 4 << 20;

tl::expected<toml::table, ConfigError> parse_toml(std::string_view text, const std::string& file);

// The error for a node, or for the key of a node, at its place in the file.
ConfigError error_at(const std::string& file, const toml::source_region& where,
                     std::string message);

}  // namespace turnstile::gateway
