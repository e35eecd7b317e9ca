// policy_fairness.h: three controlled experiments on the policy core, each with random parameters
// from a seed: teams that always have work, a team that returns after a silence, and a client that
// is alone and does as it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace turnstile::policy::sim {

// Each returns the sentence that is broken, or nothing.
std::optional<std::string> run_backlogged(std::uint64_t seed);
std::optional<std::string> run_idle_return(std::uint64_t seed);
std::optional<std::string> run_obedient_client(std::uint64_t seed, std::int64_t& retries);

}  // namespace turnstile::policy::sim
