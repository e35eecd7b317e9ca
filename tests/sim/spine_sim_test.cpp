// Hundreds of random lives of the real spine. See spine_sim.h for what one seed does.
//
//   spine_sim_test --seed=N            one seed (also TURNSTILE_SIM_SEED=N)
//   spine_sim_test --seeds=N           how many seeds, from 1 (also TURNSTILE_SIM_SEEDS=N)
//   spine_sim_test --seed=N --moves=K  the first K moves of it; a failure prints how few suffice
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/sim/on_abort.h"
#include "tests/sim/spine_sim.h"

namespace turnstile::tests {
namespace {

struct Options {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 600;
  std::uint64_t moves = kAllMoves;
  std::string program = "spine_sim_test";
};
Options options;

constexpr std::int64_t kMostMoves = 700;

std::string repeat_life(std::uint64_t seed) {
  const std::int64_t moves = fewest_steps(kMostMoves, [seed](std::int64_t first) {
    return run_spine_sim(seed, static_cast<std::uint64_t>(first)).failure.has_value();
  });
  return "repeat with: " + options.program + " --seed=" + std::to_string(seed) +
         " --gtest_filter=SpineSim.RandomLivesKeepEveryPromise --moves=" + std::to_string(moves);
}

// Conservation, permits, one end per request, no token after a cancel, well-formed streams.
TEST(SpineSim, RandomLivesKeepEveryPromise) {
  SpineSimCounts total;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    tell_on_abort([seed] { return repeat_life(seed); });
    const SpineSimResult result = run_spine_sim(seed, options.moves);
    ASSERT_FALSE(result.failure) << *result.failure << "\n" << repeat_life(seed);
    total.moves += result.counts.moves;
    total.arrived += result.counts.arrived;
    total.refused += result.counts.refused;
    total.completed += result.counts.completed;
    total.client_gone += result.counts.client_gone;
    total.timed_out += result.counts.timed_out;
    total.fault += result.counts.fault;
  }
  std::cout << options.seeds << " seeds, " << total.moves << " moves, " << total.arrived
            << " arrived, " << total.refused << " refused, " << total.completed << " completed, "
            << total.client_gone << " left, " << total.timed_out << " timed out, " << total.fault
            << " faults\n";
  // A simulation in which nothing happens proves nothing.
  if (options.seeds >= 100) {
    for (const std::uint64_t outcome : {total.refused, total.completed, total.client_gone,
                                        total.timed_out, total.fault}) {
      EXPECT_GT(outcome, total.arrived / 100);
    }
  }
}

TEST(SpineSim, SameSeedSameRecords) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(run_spine_sim(seed).log_hash, run_spine_sim(seed).log_hash) << "seed " << seed;
  }
}

}  // namespace

void set_options(int argc, char** argv) {
  const auto number = [](std::string_view text) {
    return std::strtoull(std::string(text).c_str(), nullptr, 10);
  };
  const auto only = [&](std::string_view text) {
    options.first_seed = number(text);
    options.seeds = 1;
  };
  options.program = argv[0];
  if (const char* seeds = std::getenv("TURNSTILE_SIM_SEEDS")) options.seeds = number(seeds);
  if (const char* seed = std::getenv("TURNSTILE_SIM_SEED")) only(seed);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--seeds=")) options.seeds = number(argument.substr(8));
    if (argument.starts_with("--seed=")) only(argument.substr(7));
    if (argument.starts_with("--moves=")) options.moves = number(argument.substr(8));
  }
}

}  // namespace turnstile::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  turnstile::tests::set_options(argc, argv);
  return RUN_ALL_TESTS();
}
