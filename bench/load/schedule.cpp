#include "bench/load/schedule.h"

#include <cassert>
#include <cmath>

#include "bench/load/random_stream.h"

namespace turnstile::load {

std::vector<std::chrono::nanoseconds> open_loop_schedule(Arrival arrival, double rate_per_s,
                                                         std::uint64_t count, std::uint64_t seed) {
  assert(rate_per_s > 0 && "an open loop needs a rate");
  constexpr std::uint64_t kScheduleStream = 0x5c4ed01e;
  RandomStream random(seed, kScheduleStream);
  std::vector<std::chrono::nanoseconds> times;
  times.reserve(count);
  double at_s = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    // Uniform times come from a product, so that a million gaps do not add up their roundings.
    if (arrival == Arrival::Uniform) at_s = static_cast<double>(i) / rate_per_s;
    if (arrival == Arrival::Poisson) at_s += -std::log(random.next_unit()) / rate_per_s;
    times.emplace_back(static_cast<std::int64_t>(at_s * 1e9));
  }
  return times;
}

}  // namespace turnstile::load
