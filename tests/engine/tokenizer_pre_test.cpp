#include "engine/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/unicode_class.h"
#include "engine/tokenizer/utf8.h"
#include "tests/support/repeats.h"

namespace turnstile::engine {
namespace {

using Pieces = std::vector<std::string>;

Pieces cut(PreTokenizer kind, std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(kind, text, at);
    EXPECT_GT(end, at);
    EXPECT_LE(end, text.size());
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

struct Char {
  std::string bytes;
  CharClass char_class;
};

// The pattern of the header, alternative by alternative, over a stretch of characters. Returns how
// many characters match at `at`.
std::size_t match_pattern(const std::vector<Char>& chars, std::size_t at) {
  const auto is = [&](std::size_t i, CharClass c) {
    return i < chars.size() && chars[i].char_class == c;
  };
  const auto text = [&](std::size_t i) { return i < chars.size() ? chars[i].bytes : ""; };
  if (text(at) == "'") {
    for (const std::string word : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      std::string following;
      for (std::size_t i = 0; i < word.size(); ++i) following += text(at + 1 + i);
      if (following == word) return 1 + word.size();
    }
  }
  for (const CharClass c : {CharClass::Letter, CharClass::Number, CharClass::Other}) {
    std::size_t i = at + (text(at) == " " ? 1 : 0);
    if (!is(i, c)) continue;
    while (is(i, c)) ++i;
    return i - at;
  }
  std::size_t end = at;
  while (is(end, CharClass::Space)) ++end;
  // \s+(?!\S) gives one back when something visible follows, if one is left then.
  if (end < chars.size() && end - at > 1) --end;
  return end - at;
}

Pieces cut_by_pattern(PreTokenizer kind, std::string_view text) {
  std::vector<std::vector<Char>> stretches(1);
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar decoded = decode_utf8(text, at);
    Char c{std::string(text.substr(at, decoded.byte_count)), classify(decoded.code_point)};
    at += decoded.byte_count;
    if (kind == PreTokenizer::Smollm && c.char_class == CharClass::Number) {
      stretches.push_back({c});
      stretches.emplace_back();
    } else {
      stretches.back().push_back(c);
    }
  }
  Pieces pieces;
  for (const auto& stretch : stretches) {
    for (std::size_t at = 0; at < stretch.size();) {
      const std::size_t count = match_pattern(stretch, at);
      std::string piece;
      for (std::size_t i = 0; i < count; ++i) piece += stretch[at + i].bytes;
      pieces.push_back(piece);
      at += count;
    }
  }
  return pieces;
}

TEST(PreTokenizer, CutsWordsWithTheirSpace) {
  EXPECT_EQ(cut(PreTokenizer::Gpt2, "Hello, the  world!\n"),
            (Pieces{"Hello", ",", " the", " ", " world", "!", "\n"}));
  EXPECT_EQ(cut(PreTokenizer::Gpt2, "we'll it's I'VE 'twas"),
            (Pieces{"we", "'ll", " it", "'s", " I", "'", "VE", " '", "twas"}));
  EXPECT_EQ(cut(PreTokenizer::Gpt2, "a\n\n b \t"), (Pieces{"a", "\n\n", " b", " \t"}));
}

TEST(PreTokenizer, SmollmCutsEveryDigitAndKeepsTheSpacesBeforeItTogether) {
  EXPECT_EQ(cut(PreTokenizer::Gpt2, "in 2023 x  12"), (Pieces{"in", " 2023", " x", " ", " 12"}));
  EXPECT_EQ(cut(PreTokenizer::Smollm, "in 2023 x  12"),
            (Pieces{"in", " ", "2", "0", "2", "3", " x", "  ", "1", "2"}));
  EXPECT_EQ(cut(PreTokenizer::Smollm, "x\xC2\xBD\xE2\x85\xA3y"),
            (Pieces{"x", "\xC2\xBD", "\xE2\x85\xA3", "y"}));
}

TEST(PreTokenizer, InvalidBytesAreNeitherLettersNorSpace) {
  EXPECT_EQ(cut(PreTokenizer::Gpt2, "a\xFF\xC3 b"), (Pieces{"a", "\xFF\xC3", " b"}));
  EXPECT_EQ(cut(PreTokenizer::Gpt2, " \x80!"), (Pieces{" \x80!"}));
}

TEST(PreTokenizer, KnowsItsNames) {
  EXPECT_EQ(find_pre_tokenizer("gpt-2"), PreTokenizer::Gpt2);
  EXPECT_EQ(find_pre_tokenizer("default"), PreTokenizer::Gpt2);
  EXPECT_EQ(find_pre_tokenizer("smollm"), PreTokenizer::Smollm);
  EXPECT_EQ(find_pre_tokenizer("llama-bpe"), std::nullopt);
}

TEST(PreTokenizer, EqualsThePatternOnRandomText) {
  const Pieces alphabet = {" ",
                           " ",
                           "\n",
                           "\t",
                           "\xC2\xA0",
                           "\xE3\x80\x80",
                           "a",
                           "s",
                           "t",
                           "r",
                           "e",
                           "l",
                           "d",
                           "Z",
                           "'",
                           "'",
                           "!",
                           "-",
                           "1",
                           "9",
                           "\xC3\xA9",
                           "\xD9\xA1",
                           "\xE4\xB8\x80",
                           "\xF0\x9F\x98\x80",
                           "\xCC\x81",
                           "\xFF",
                           "\xC3",
                           "\xE2\x80\xA8",
                           "\xC2\x85",
                           "\x1C"};
  for (std::uint32_t seed = 0; seed < tests::repeats(20'000); ++seed) {
    std::mt19937 random(seed);
    std::string text;
    const std::size_t length = random() % 24;
    for (std::size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    for (const PreTokenizer kind : {PreTokenizer::Gpt2, PreTokenizer::Smollm}) {
      ASSERT_EQ(cut(kind, text), cut_by_pattern(kind, text)) << "seed " << seed;
    }
  }
}

TEST(UnicodeClass, AgreesWithKnownCharacters) {
  for (const std::uint32_t c : {0x41u, 0x7Au, 0xAAu, 0xE9u, 0x3B1u, 0x5D0u, 0x4E00u, 0xAC00u,
                                0x1D400u, 0x20000u, 0x31350u}) {
    EXPECT_EQ(classify(c), CharClass::Letter) << std::hex << c;
  }
  for (const std::uint32_t c : {0x30u, 0xB2u, 0xBDu, 0x661u, 0x2163u, 0x3007u, 0x1D7CEu}) {
    EXPECT_EQ(classify(c), CharClass::Number) << std::hex << c;
  }
  for (const std::uint32_t c : {0x9u, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2003u, 0x2028u, 0x3000u}) {
    EXPECT_EQ(classify(c), CharClass::Space) << std::hex << c;
  }
  for (const std::uint32_t c : {0x0u, 0x1Cu, 0x21u, 0x301u, 0x180Eu, 0x200Bu, 0xFEFFu, 0xFFFDu,
                                0x1F600u, 0x10FFFFu, kInvalidCodePoint}) {
    EXPECT_EQ(classify(c), CharClass::Other) << std::hex << c;
  }
}

TEST(UnicodeClass, RangesAreSortedAndDisjoint) {
  for (const auto ranges : {letter_ranges(), number_ranges()}) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i].first, ranges[i].last);
      if (i == 0) continue;
      EXPECT_GT(ranges[i].first, ranges[i - 1].last + 1);
    }
  }
}

TEST(Utf8, DecodesWhatItEncodes) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    append_utf8(c, bytes);
    const DecodedChar decoded = decode_utf8(bytes, 0);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.byte_count, bytes.size());
    for (std::size_t length = 1; length < bytes.size(); ++length) {
      ASSERT_EQ(decode_utf8(std::string_view(bytes).substr(0, length), 0).code_point,
                kInvalidCodePoint);
    }
  }
}

TEST(Utf8, RefusesOverlongSurrogateAndTooLargeForms) {
  for (const std::string_view bytes :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80",
        "\xFF", "\xE4\xB8\x41"}) {
    EXPECT_EQ(decode_utf8(bytes, 0).code_point, kInvalidCodePoint);
    EXPECT_EQ(decode_utf8(bytes, 0).byte_count, 1u);
  }
}

}  // namespace
}  // namespace turnstile::engine
