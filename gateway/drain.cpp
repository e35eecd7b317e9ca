#include "gateway/drain.h"

namespace turnstile::gateway {

void Drain::begin(policy::Instant now) {
  if (phase_ != ServePhase::Serving) return;
  phase_ = ServePhase::Delay;
  delay_ends_ = now + delay_;
}

ServePhase Drain::advance(policy::Instant now, bool idle) {
  if (phase_ == ServePhase::Delay && now >= delay_ends_) phase_ = ServePhase::Refusing;
  if (phase_ == ServePhase::Refusing && (idle || now >= delay_ends_ + timeout_)) {
    phase_ = ServePhase::Ending;
  }
  return phase_;
}

std::optional<policy::Instant> Drain::next_deadline() const {
  if (phase_ == ServePhase::Delay) return delay_ends_;
  if (phase_ == ServePhase::Refusing) return delay_ends_ + timeout_;
  return std::nullopt;
}

}  // namespace turnstile::gateway
