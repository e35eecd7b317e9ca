// instant.h: the time that policy is told.
//
// Policy never asks what time it is: every call that depends on time gets `now` as an argument, so
// the same calls give the same answers on any run. InstantClock has no now(), which makes asking
// a compile error. The gateway converts its steady clock at one place; tests start at Instant{}.
//
// Instants of one Admission never go back: a caller passes a `now` that is not earlier than the one
// before (asserted where it matters).
#pragma once

#include <chrono>

namespace turnstile::policy {

using Duration = std::chrono::nanoseconds;

struct InstantClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<InstantClock, Duration>;
  static constexpr bool is_steady = true;
};

using Instant = InstantClock::time_point;

}  // namespace turnstile::policy
