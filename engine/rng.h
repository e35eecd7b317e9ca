// rng.h: random numbers as a pure function of (seed, choice, position).
//
// Philox4x32-10 of Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3"
// (SC 2011): a keyed bijection of a 128-bit counter, ten rounds of multiply and xor. Because there
// is no state, the draw for a token does not depend on what else was drawn before: not on the
// batch, not on a pause, not on the other choices.
//
// Thread: pure. Tests: tests/engine/rng_test.cpp (the paper's known answers).
#pragma once

#include <array>
#include <cstdint>

namespace turnstile::engine {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// Uniform in [0, 1), a multiple of 2^-53.
double uniform_draw(std::uint64_t seed, std::uint32_t choice, std::uint32_t position);

}  // namespace turnstile::engine
