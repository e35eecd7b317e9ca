// surroundings.h: what a verb gets from the process: where it prints, the time, random numbers.
//
// References; the owner is main() or a test.
#pragma once

#include <iosfwd>

#include "gateway/clock.h"
#include "gateway/ids.h"

namespace turnstile::gateway {

struct Surroundings {
  std::ostream& out;
  std::ostream& err;
  const Clock& clock;
  RandomSource& random;
};

}  // namespace turnstile::gateway
