// policy_sim.h: the policy core driven through random lives, with no engine, socket or clock.
//
// One seed makes a world (policy, keys, engine), a fake engine with exact tokens and blocks, and a
// sequence of events: arrivals, large prompts that are read first, clients that leave in any phase
// (also between a refusal and its report), engine steps, ends, faults, keys that change or are
// revoked, jumps of time. After each event the invariants of Admission and the promises of the
// books (policy_books.h) are checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/policy_books.h"

namespace turnstile::policy::sim {

struct SimResult {
  std::optional<std::string> failure;  // the sentence that is broken, and after which event
  std::uint64_t log_hash = 0;          // of every decision, in order
  std::int64_t steps = 0;
  std::int64_t pauses = 0;
  std::int64_t exhausted = 0;
  std::int64_t kept_tickets = 0;
  std::int64_t left_untold = 0;  // refused, and gone before they were told
  Counts counts;
};

inline constexpr std::int64_t kAllEvents = 1'000'000;

// `most_events`: so many of the seed's events, and then everybody finishes.
SimResult run_policy_sim(std::uint64_t seed, std::int64_t most_events = kAllEvents);

// Runs a life, then repeats the log of its calls: the first answer that differs.
std::optional<std::string> run_and_replay(std::uint64_t seed);

// Of a seed that fails: the fewest events with which it still does.
std::int64_t smallest_failing_prefix(std::uint64_t seed);

}  // namespace turnstile::policy::sim
