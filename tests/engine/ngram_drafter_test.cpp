#include "engine/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace turnstile::engine {
namespace {

std::vector<TokenId> tokens_of(const std::string& text) { return {text.begin(), text.end()}; }

// What the drafter guesses for a text of one-letter tokens.
std::string guess(const std::string& text, std::uint32_t shortest, std::uint32_t longest,
                  std::uint32_t limit) {
  NgramDrafter drafter({.num_speculative_tokens = limit,
                        .prompt_lookup_min = shortest,
                        .prompt_lookup_max = longest});
  Sequence sequence;
  sequence.tokens = tokens_of(text);
  sequence.draft_limit = limit;
  sequence.draft = {'?'};
  Sequence* const sequences[] = {&sequence};
  drafter.propose(sequences);
  return {sequence.draft.begin(), sequence.draft.end()};
}

struct Case {
  const char* text;
  std::uint32_t shortest, longest, limit;
  const char* guess;
};

TEST(NgramDrafter, GuessesWhatFollowedTheSameWords) {
  const Case cases[] = {
      {"the cat sat. the c", 2, 8, 3, "at "},
      {"abcdef", 1, 5, 4, ""},              // nothing repeats
      {"abXcd abYc ab", 2, 2, 2, "Yc"},     // of two places the later one
      {"1abX 2abY 1ab", 2, 3, 1, "X"},      // but a longer match before a later one
      {"1abX 2abY 1ab", 2, 2, 1, "Y"},      // unless longer ones are not looked for
      {"xyz xy", 3, 5, 3, ""},              // the match is shorter than asked for
      {"aaaa", 2, 3, 5, "aaaaa"},           // a guess that overlaps its own end goes round
      {"abcabcab", 3, 4, 7, "cabcabc"},
      {"ab", 1, 1, 3, ""},
      {"a", 1, 1, 3, ""},
      {"aa", 1, 1, 2, "aa"},
      {"abab", 1, 8, 0, ""},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(guess(c.text, c.shortest, c.longest, c.limit), c.guess) << c.text;
  }
}

TEST(NgramDrafter, IsSureOfAGuessWhoseSuffixHasTheFullLength) {
  NgramDrafter drafter(
      {.num_speculative_tokens = 2, .prompt_lookup_min = 2, .prompt_lookup_max = 3});
  for (const auto& [text, is_sure] : {std::pair("abcd abc", true), std::pair("xbcd abc", false)}) {
    Sequence sequence;
    sequence.tokens = tokens_of(text);
    sequence.draft_limit = 1;
    Sequence* const sequences[] = {&sequence};
    drafter.propose(sequences);
    EXPECT_EQ(sequence.sure_guesses, is_sure ? sequence.draft.size() : 0U) << text;
    EXPECT_EQ(sequence.draft, tokens_of("d")) << text;
  }
}

// Against the definition, tried at every place.
TEST(NgramDrafter, FindsTheLatestOfTheLongestMatches) {
  std::mt19937 random(7);
  for (int round = 0; round < 3'000; ++round) {
    std::vector<TokenId> tokens(1 + random() % 40);
    for (TokenId& token : tokens) token = random() % 3;
    const auto shortest = static_cast<std::uint32_t>(1 + random() % 4);
    const auto longest = shortest + static_cast<std::uint32_t>(random() % 4);
    std::size_t expected = tokens.size();
    for (std::size_t length = longest; length >= shortest && expected == tokens.size(); --length) {
      for (std::size_t end = tokens.size() - 1; end >= length; --end) {
        if (std::equal(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(),
                       tokens.begin() + static_cast<std::ptrdiff_t>(end - length))) {
          expected = end;
          break;
        }
      }
    }
    ASSERT_EQ(find_continuation(tokens, shortest, longest).begin, expected) << round;
  }
}

}  // namespace
}  // namespace turnstile::engine
