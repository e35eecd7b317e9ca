// quantity.h: numbers with units, as they stand in the TOML files and on the command line.
//
//   durations  "800ms" "2s" "10m" "24h"
//   sizes      "64KiB" "4MiB" "2GiB" "512B"   or a plain number of bytes
//
// Counts are policy's (policy/quantity.h). Whole numbers only; nullopt for anything else, overflow
// included. Thread: any; pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::gateway {

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
std::optional<std::uint64_t> parse_size(std::string_view text);

// A size that parse_size() takes, for one written with another unit: "4 GB", "64k", "1gib".
std::optional<std::string> meant_size(std::string_view text);

// The shortest text that the functions above read back as the same value.
std::string duration_text(std::chrono::milliseconds duration);
std::string size_text(std::uint64_t bytes);

}  // namespace turnstile::gateway
