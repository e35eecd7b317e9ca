// finite_values.h: whether the floating-point numbers in a tensor's bytes are finite.
//
//   F32, F16, BF16     every value
//   block formats      the one or two halves of each block, which scale its integers
//
// One infinity or NaN of a broken file reaches every token: as a fault when one is lucky, and as
// nonsense when a later step rounds it away. It costs a pass over bytes that are read anyway.
//
// Thread: any; pure. Tests: tests/engine/weights_test.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/file_blocks.h"

namespace turnstile::engine {

// REQUIRES: whole blocks.
bool are_finite(kernels::FileType type, std::span<const std::byte> blocks);

}  // namespace turnstile::engine
