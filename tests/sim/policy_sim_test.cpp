// Thousands of random lives of the policy core. See policy_sim.h for what one seed does.
//
//   policy_sim_test --seed=N           one seed (also TURNSTILE_SIM_SEED=N)
//   policy_sim_test --seeds=N          how many seeds, from 1 (also TURNSTILE_SIM_SEEDS=N)
//   policy_sim_test --seed=N --events=K   the first K events of it; a failure prints the smallest K
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/on_abort.h"
#include "tests/sim/policy_fairness.h"
#include "tests/sim/policy_sim.h"

namespace turnstile::policy::sim {
namespace {

struct Options {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 20'000;
  std::int64_t events = kAllEvents;
  std::string program = "policy_sim_test";
};
Options options;

// The command that repeats the running test with this seed alone.
std::string repeat(std::uint64_t seed) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  return "repeat with: " + options.program + " --seed=" + std::to_string(seed) +
         " --gtest_filter=" + test.test_suite_name() + "." + test.name();
}

// With the fewest events with which it still fails.
std::string repeat_life(std::uint64_t seed) {
  return repeat(seed) + " --events=" + std::to_string(smallest_failing_prefix(seed));
}

// I1 conservation, I2 meters, I3 settlement, I4 single release, I9 class order, I10 work
// conservation, I11 budgets (every bucket equals a reference at each step), I12 clamp, I13 refusal
// purity, I15 causality; I5 watermarks.
TEST(PolicySim, RandomPoliciesAndTrafficKeepEveryPromise) {
  Counts total;
  std::int64_t steps = 0;
  std::int64_t pauses = 0;
  std::int64_t exhausted = 0;
  std::int64_t kept_tickets = 0;
  std::int64_t left_untold = 0;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat_life(seed); });
    const SimResult result = run_policy_sim(seed, options.events);
    ASSERT_FALSE(result.failure) << *result.failure << "\n" << repeat_life(seed);
    total.arrived += result.counts.arrived;
    total.refused += result.counts.refused;
    total.completed += result.counts.completed;
    total.client_gone += result.counts.client_gone;
    steps += result.steps;
    pauses += result.pauses;
    exhausted += result.exhausted;
    kept_tickets += result.kept_tickets;
    left_untold += result.left_untold;
  }
  std::cout << options.seeds << " seeds, " << steps << " events, " << total.arrived << " arrived, "
            << total.refused << " refused, " << total.completed << " completed, "
            << total.client_gone << " left, " << pauses << " pauses, "
            << exhausted << " budgets ended an answer, " << kept_tickets << " tickets were kept, "
            << left_untold << " left before they were told\n";
  // A simulation in which nothing happens proves nothing.
  if (options.seeds >= 100) {
    EXPECT_GT(total.refused, total.arrived / 20);
    EXPECT_GT(total.completed, total.arrived / 20);
    EXPECT_GT(pauses, total.arrived / 200);
    EXPECT_GT(kept_tickets, total.arrived / 1000);
    EXPECT_GT(left_untold, total.arrived / 1000);
    EXPECT_TRUE(options.seeds < 10'000 || exhausted > 10) << "no budget ran dry";
  }
}

// I16: the same calls give the same decisions, bit for bit.
TEST(PolicySim, SameSeedGivesTheSameDecisions) {
  for (std::uint64_t i = 0; i < options.seeds; i += 10) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat(seed); });
    ASSERT_EQ(run_policy_sim(seed).log_hash, run_policy_sim(seed).log_hash) << repeat(seed);
  }
}

// Run and replay: from the log of what admission was told, every answer comes again, word for word.
// This is also I17: the log holds no length of an answer before it has come, so none was used.
TEST(PolicySim, ReplayOfTheLogGivesTheSameAnswers) {
  for (std::uint64_t i = 0; i < options.seeds; i += 10) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat(seed); });
    const auto failure = run_and_replay(seed);
    ASSERT_FALSE(failure) << *failure << "\n" << repeat(seed);
  }
}

// I8: after any silence a team gets its share of what follows, and no more than its bound above it.
TEST(PolicySim, ReturningTeamGetsItsShareAndNoMore) {
  for (std::uint64_t i = 0; i < options.seeds / 10 + 1; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat(seed); });
    const auto failure = run_idle_return(seed);
    ASSERT_FALSE(failure) << *failure << "\n" << repeat(seed);
  }
}

// The bound between siblings that always have work, for random weights and shapes.
TEST(PolicySim, BackloggedTeamsStayWithinTheSiblingBound) {
  for (std::uint64_t i = 0; i < options.seeds / 10 + 1; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat(seed); });
    const auto failure = run_backlogged(seed);
    ASSERT_FALSE(failure) << *failure << "\n" << repeat(seed);
  }
}

// I14: alone in the system, a client that waits as told is admitted on its first retry.
TEST(PolicySim, ObeyedRetryAfterIsAdmitted) {
  std::int64_t retries = 0;
  for (std::uint64_t i = 0; i < options.seeds / 4 + 1; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    tests::tell_on_abort([seed] { return repeat(seed); });
    const auto failure = run_obedient_client(seed, retries);
    ASSERT_FALSE(failure) << *failure << "\n" << repeat(seed);
  }
  EXPECT_TRUE(options.seeds < 1000 || retries > 0) << "nobody was told to wait";
}

std::optional<std::uint64_t> number_after(std::string_view argument, std::string_view flag) {
  if (argument.substr(0, flag.size()) != flag) return std::nullopt;
  return std::strtoull(std::string(argument.substr(flag.size())).c_str(), nullptr, 10);
}

void read_options(int argc, char** argv) {
  options.program = argv[0];
  std::optional<std::uint64_t> one_seed;
  if (const char* text = std::getenv("TURNSTILE_SIM_SEED")) one_seed = number_after(text, "");
  if (const char* text = std::getenv("TURNSTILE_SIM_SEEDS")) {
    options.seeds = *number_after(text, "");
  }
  for (int i = 1; i < argc; ++i) {
    if (const auto seed = number_after(argv[i], "--seed=")) one_seed = seed;
    if (const auto count = number_after(argv[i], "--seeds=")) options.seeds = *count;
    if (const auto count = number_after(argv[i], "--events=")) {
      options.events = static_cast<std::int64_t>(*count);
    }
  }
  if (!one_seed) return;
  options.first_seed = *one_seed;
  options.seeds = 1;
}

}  // namespace
}  // namespace turnstile::policy::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  turnstile::policy::sim::read_options(argc, argv);
  return RUN_ALL_TESTS();
}
