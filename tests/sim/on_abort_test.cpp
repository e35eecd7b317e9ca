// What a random life leaves on standard error when it ends in an assert.
#include "tests/sim/on_abort.h"

#include <gtest/gtest.h>

#include <cassert>

namespace turnstile::tests {
namespace {

// Fine for 36 steps.
bool planted_life(std::int64_t steps) {
  assert(steps < 37 && "planted");
  return false;
}

std::string story() {
  return "repeat with: planted_life " + std::to_string(fewest_steps(1'000, planted_life));
}

// The assert's own sentence first, then the story, whose telling dies of the same assert again and
// again, elsewhere; and the process still ends as an assert ends it.
TEST(OnAbort, SaysAfterTheAssertHowLittleOfTheLifeIsNeeded) {
  const auto live = [] {
    tell_on_abort([] { return std::string("a life that is over"); });
    tell_on_abort(story);
    planted_life(1'000);
  };
  EXPECT_EXIT(live(), testing::KilledBySignal(SIGABRT),
              "planted.*\nrepeat with: planted_life 37\n$");
}

TEST(OnAbort, ALifeThatFailsWithoutAnAssertIsShortenedToo) {
  EXPECT_TRUE(fails_apart([] { return true; }));
  EXPECT_FALSE(fails_apart([] { return false; }));
  EXPECT_EQ(fewest_steps(700, [](std::int64_t steps) { return steps >= 5; }), 5);
  EXPECT_EQ(fewest_steps(700, [](std::int64_t) { return true; }), 0);
}

}  // namespace
}  // namespace turnstile::tests
