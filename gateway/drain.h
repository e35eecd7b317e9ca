// drain.h: the way from serving to exit, as pure state.
//
//   Serving --begin()--> Delay --drain_delay--> Refusing --idle, or drain_timeout--> Ending -->
//              exit |           |                       |                                   |
//            readyz 503  still serves        503 draining                   error event to the rest
//
// drain_timeout counts from the end of the delay. A fault of the engine goes to Ending at once.
//
// Thread: I/O. Time is passed in.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/instant.h"

namespace turnstile::gateway {

enum class ServePhase : std::uint8_t { Serving, Delay, Refusing, Ending };

class Drain {
 public:
  Drain(policy::Duration delay, policy::Duration timeout) : delay_(delay), timeout_(timeout) {}

  // The first call counts.
  void begin(policy::Instant now);

  // Ends without waiting.
  void end_now() { phase_ = ServePhase::Ending; }

  // Moves on to the phase that `now` and the number of open requests ask for.
  ServePhase advance(policy::Instant now, bool idle);

  ServePhase phase() const { return phase_; }
  bool accepts_requests() const {
    return phase_ == ServePhase::Serving || phase_ == ServePhase::Delay;
  }

  // When advance() must be called if nothing else happens.
  std::optional<policy::Instant> next_deadline() const;

 private:
  policy::Duration delay_;
  policy::Duration timeout_;
  policy::Instant delay_ends_{};
  ServePhase phase_ = ServePhase::Serving;
};

}  // namespace turnstile::gateway
