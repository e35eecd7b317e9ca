// spine_turn.h: what happens at the end of every turn of the I/O thread.
//
//   counted texts -> engine reports -> due deadlines -> admission's dispatch -> drain -> audit
//
// Everything that arrived in the turn is decided together. The same function runs under the
// server's loop and under the simulator.
//
// Thread: I/O.
// Tests:  tests/sim/spine_sim_test.cpp.
#pragma once

#include <optional>

#include "gateway/spine_context.h"
#include "policy/instant.h"

namespace turnstile::gateway {

void end_turn(SpineContext& context);

// When the next turn must come if nothing else happens.
std::optional<policy::Instant> next_wake(const SpineContext& context);

}  // namespace turnstile::gateway
