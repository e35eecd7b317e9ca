#include "engine/completion_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace turnstile::engine {
namespace {

struct Outcome {
  std::vector<std::string> pieces;  // one a token, then what the end brought
  std::optional<std::uint32_t> stop;
  std::string all() const {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    return text;
  }
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& tokens,
            bool include = false, std::size_t unsearched_tokens = 0) {
  const StopStrings strings(stops);
  CompletionText text(strings, include);
  Outcome outcome;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string out;
    outcome.stop = text.push(tokens[i], i >= unsearched_tokens, out);
    outcome.pieces.push_back(out);
    if (outcome.stop) return outcome;
  }
  std::string out;
  outcome.stop = text.finish(tokens.size() > unsearched_tokens, out);
  outcome.pieces.push_back(out);
  return outcome;
}

using Pieces = std::vector<std::string>;

TEST(CompletionText, PassesTextWithoutStopsAtOnce) {
  EXPECT_EQ(run({}, {"a", "bc", "d"}).pieces, (Pieces{"a", "bc", "d", ""}));
}

TEST(CompletionText, HoldsBackOnlyWhatMayBecomeAStop) {
  EXPECT_EQ(run({"STOP"}, {"aS", "T", "x", "ST"}).pieces, (Pieces{"a", "", "STx", "", "ST"}));
}

TEST(CompletionText, AStopOverSeveralTokensNeverLeaks) {
  const Outcome outcome = run({"STOP"}, {"go S", "T", "OP and more"});
  EXPECT_EQ(outcome.pieces, (Pieces{"go ", "", ""}));
  EXPECT_EQ(outcome.stop, 0U);
}

TEST(CompletionText, AStopInsideATokenCutsTheTextThere) {
  EXPECT_EQ(run({"."}, {"One. Two"}).pieces, (Pieces{"One"}));
  EXPECT_EQ(run({"."}, {"One. Two"}, true).pieces, (Pieces{"One."}));
}

TEST(CompletionText, AnIncludedStopComesWholeAndEndsTheText) {
  const Outcome outcome = run({"STOP"}, {"go S", "T", "OP and more"}, true);
  EXPECT_EQ(outcome.pieces, (Pieces{"go ", "", "STOP"}));
}

TEST(CompletionText, TheEarliestEndWinsAlsoWhenALongerStopBeganBefore) {
  const Outcome outcome = run({"abcd", "bc"}, {"xa", "b", "cd"});
  EXPECT_EQ(outcome.all(), "xa");
  EXPECT_EQ(outcome.stop, 1U);
}

TEST(CompletionText, CharactersSplitOverTokensComeWhole) {
  EXPECT_EQ(run({}, {"a\xE2", "\x82", "\xAC!"}).pieces, (Pieces{"a", "", "\xE2\x82\xAC!", ""}));
  EXPECT_EQ(run({"!"}, {"\xC3", "\xA9", "!"}).pieces, (Pieces{"", "\xC3\xA9", ""}));
}

TEST(CompletionText, AStopStringSplitInsideACharacterIsFound) {
  const Outcome outcome = run({"\xE2\x82\xAC"}, {"1\xE2", "\x82", "\xAC" "2"});
  EXPECT_EQ(outcome.all(), "1");
  EXPECT_EQ(outcome.stop, 0U);
}

TEST(CompletionText, ACharacterThatSharesItsFirstBytesWithAStopIsNotCut) {
  // U+20AD begins with the same two bytes as U+20AC.
  EXPECT_EQ(run({"\xE2\x82\xAC"}, {"1\xE2\x82", "\xAD"}).all(), "1\xE2\x82\xAD");
}

TEST(CompletionText, ACutCharacterAtTheEndBecomesAReplacementCharacter) {
  EXPECT_EQ(run({}, {"a\xE2\x82"}).pieces, (Pieces{"a", "\xEF\xBF\xBD"}));
  EXPECT_EQ(run({"x"}, {"a\xE2\x82"}).all(), "a\xEF\xBF\xBD");
  EXPECT_EQ(run({"\xEF\xBF\xBD"}, {"a\xE2\x82"}).all(), "a") << "a stop never leaks";
}

TEST(CompletionText, UnsearchedTokensMayContainAStop) {
  const Outcome outcome = run({"END"}, {"END", "E", "ND", "END"}, false, 2);
  EXPECT_EQ(outcome.all(), "ENDEND");
  EXPECT_EQ(outcome.pieces.size(), 4U);
  EXPECT_EQ(outcome.stop, 0U);
}

}  // namespace
}  // namespace turnstile::engine
