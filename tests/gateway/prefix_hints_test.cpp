#include "gateway/prefix_hints.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace turnstile::gateway {
namespace {

std::vector<engine::TokenId> tokens(std::size_t count, engine::TokenId first = 1) {
  std::vector<engine::TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

TEST(PrefixHints, KnowsWholeBlocksOfWhatItSawUnderTheSameSalt) {
  const engine::CacheSalt salt{1, 2};
  PrefixHints hints;
  EXPECT_EQ(hints.known_tokens(salt, tokens(64)), 0u);
  hints.note(salt, tokens(50));
  EXPECT_EQ(hints.known_tokens(salt, tokens(64)), 48u);
  EXPECT_EQ(hints.known_tokens(salt, tokens(48)), 32u) << "the last token is always computed";
  EXPECT_EQ(hints.known_tokens(salt, tokens(64, 2)), 0u);
  EXPECT_EQ(hints.known_tokens({1, 3}, tokens(64)), 0u) << "another team";
  std::vector<engine::TokenId> branch = tokens(64);
  branch[20] = 999;
  EXPECT_EQ(hints.known_tokens(salt, branch), 16u);
}

TEST(PrefixHints, ForgetsUnderNewerPrompts) {
  const engine::CacheSalt salt{1, 2};
  PrefixHints hints;
  hints.note(salt, tokens(64));
  hints.note(salt, tokens(16 * 16 * PrefixHints::kPlaces / 2, 100'000));
  EXPECT_EQ(hints.known_tokens(salt, tokens(64)), 0u);
}

}  // namespace
}  // namespace turnstile::gateway
