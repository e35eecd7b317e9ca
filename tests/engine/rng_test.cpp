#include "engine/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace turnstile::engine {
namespace {

// The known answers that the authors publish for philox4x32, 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDraw, DependsOnSeedChoiceAndPosition) {
  std::set<double> draws;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, ~0ULL}) {
    for (std::uint32_t choice = 0; choice < 4; ++choice) {
      for (std::uint32_t position = 0; position < 50; ++position) {
        draws.insert(uniform_draw(seed, choice, position));
      }
    }
  }
  EXPECT_EQ(draws.size(), 4U * 4U * 50U);
}

TEST(UniformDraw, IsUniformBelowOne) {
  double sum = 0;
  constexpr int kDraws = 100'000;
  int counts[10] = {};
  for (std::uint32_t position = 0; position < kDraws; ++position) {
    const double u = uniform_draw(42, 0, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++counts[static_cast<int>(u * 10)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 10, 500);
}

}  // namespace
}  // namespace turnstile::engine
