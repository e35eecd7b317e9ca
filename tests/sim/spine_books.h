// spine_books.h: what must agree in a SpineWorld, whatever happens to it.
//
// Each function returns the sentence that is broken.
#pragma once

#include <optional>
#include <string>

#include "tests/sim/spine_sim.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {

// After every move. Cheap.
std::optional<std::string> check_live(SpineWorld& world);

// The sums of the metrics; formats all of them, so not after every move.
std::optional<std::string> check_balance(SpineWorld& world);

// When every connection is over: nothing is held, and audit, requests.jsonl and metrics tell the
// same story.
std::optional<std::string> check_end(SpineWorld& world, SpineSimCounts& counts);

}  // namespace turnstile::tests
