// manual_clock.h: a Clock that moves only when a test says so.
//
// Wall time starts at 2026-01-01T00:00:00Z and moves along with now(); jump_wall() moves it alone,
// as an administrator or NTP would.
#pragma once

#include "gateway/clock.h"

namespace turnstile::gateway {

class ManualClock final : public Clock {
 public:
  policy::Instant now() const override { return now_; }
  WallTime wall() const override { return wall_; }

  void advance(policy::Duration by) {
    now_ += by;
    wall_ += std::chrono::duration_cast<WallTime::duration>(by);
  }
  void jump_wall(std::chrono::seconds by) { wall_ += by; }

 private:
  policy::Instant now_{};
  WallTime wall_{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
};

}  // namespace turnstile::gateway
