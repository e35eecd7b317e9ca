// machine_limits.h: what this host could do at most, measured at the start of a benchmark, so that
// its figures can be read as shares of it.
#pragma once

#include <optional>

#include "kernels/kernel_table.h"

namespace turnstile::bench {

// Billions of operations a second (a multiply and an addition are two) of one thread with the byte
// multiplication of a level and the addition that goes with it, on registers alone:
//
//   avx2                 vpmaddubsw, vpaddw    64 operations for two instructions
//   avx-vnni             vpdpbusd, 256 bits    64 for one
//   avx512-vnni          vpdpbusd, 512 bits    128 for one
//
// None for Scalar, and none for Amx, whose products share a tile unit that this does not measure.
std::optional<double> multiply_gops(kernels::Level level);

// Billions of bytes a second that `threads` threads read from memory together, each its own part
// of 256 MiB on huge pages.
double read_gigabytes_per_s(int threads);

}  // namespace turnstile::bench
