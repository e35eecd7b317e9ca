#include "gateway/clock.h"

namespace turnstile::gateway {

policy::Instant SystemClock::now() const {
  return policy::Instant(std::chrono::steady_clock::now().time_since_epoch());
}

WallTime SystemClock::wall() const { return std::chrono::system_clock::now(); }

}  // namespace turnstile::gateway
