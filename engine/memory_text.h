// memory_text.h: bytes as a person reads them.
//
// Thread: any; pure. Tests: tests/engine/kv_pool_size_test.cpp.
#pragma once

#include <cstddef>
#include <string>

namespace turnstile::engine {

// "3.2 GiB", "512.0 MiB", "0.5 MiB"; cut after the first decimal.
std::string memory_text(std::size_t bytes);

}  // namespace turnstile::engine
