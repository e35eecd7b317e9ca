// schedule.h: when each request of an open loop is meant to be sent.
//
// The whole schedule is computed before the run and is never moved: if the client or the server
// falls behind, requests are late against their intended time and the latency counts from there.
// A client that waits for the server before it sends hides the very delays it should measure
// (coordinated omission). Gaps are not rescaled to end on time either: that would make a Poisson
// process steadier than it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace turnstile::load {

enum class Arrival {
  Poisson,  // exponential gaps: independent users
  Uniform,  // equal gaps: 1 / rate
};

// Intended send times of `count` requests, ascending, relative to the start of the run.
// Needs rate_per_s > 0. The same arguments give the same times on every machine.
std::vector<std::chrono::nanoseconds> open_loop_schedule(Arrival arrival, double rate_per_s,
                                                         std::uint64_t count, std::uint64_t seed);

}  // namespace turnstile::load
