// clock.h: the one place where the program asks what time it is.
//
// policy and engine are told the time; everything in gateway/ that needs it gets a Clock. Two
// implementations: SystemClock here, ManualClock in tests/support/manual_clock.h.
//
// now() is for durations and deadlines and never goes back; wall() is for records that people
// read and may jump.
//
// Thread: any; SystemClock has no state.
#pragma once

#include <chrono>

#include "policy/instant.h"

namespace turnstile::gateway {

using WallTime = std::chrono::system_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual policy::Instant now() const = 0;
  virtual WallTime wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  policy::Instant now() const override;
  WallTime wall() const override;
};

}  // namespace turnstile::gateway
