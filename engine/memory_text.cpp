#include "engine/memory_text.h"

namespace turnstile::engine {

std::string memory_text(std::size_t bytes) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const bool is_large = bytes >= 1024 * kMiB;
  const std::size_t unit = is_large ? 1024 * kMiB : kMiB;
  const std::size_t tenths = bytes / unit * 10 + bytes % unit * 10 / unit;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
         (is_large ? " GiB" : " MiB");
}

}  // namespace turnstile::engine
