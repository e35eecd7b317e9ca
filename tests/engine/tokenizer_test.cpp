#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/golden_lines.h"
#include "tests/engine/tiny_vocabulary.h"
#include "tests/support/golden_files.h"
#include "tests/support/raw_gguf.h"
#include "tests/support/repeats.h"

namespace turnstile::engine {
namespace {

using Ids = std::vector<TokenId>;

TEST(Tokenizer, MergesLowestRankFirst) {
  TinyVocabulary words;
  const TokenId bc = words.merge("b", "c");
  words.merge("a", "b");
  const TokenId cd = words.merge("c", "d");
  const Tokenizer tokenizer = words.build();
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{'a', bc}));
  EXPECT_EQ(encode(tokenizer, "bcd"), (Ids{bc, 'd'}));
  EXPECT_EQ(encode(tokenizer, "xcd"), (Ids{'x', cd}));
}

TEST(Tokenizer, MergesEqualPairsFromTheLeft) {
  TinyVocabulary words;
  const TokenId aa = words.merge("a", "a");
  EXPECT_EQ(encode(words.build(), "aaa"), (Ids{aa, 'a'}));
}

// "ab" is in the vocabulary, but merging "abc" takes another way: the piece must not be looked up.
TEST(Tokenizer, APieceThatIsATokenIsOnlyUsedWhenMergingArrivesThere) {
  TinyVocabulary words;
  const TokenId bc = words.merge("b", "c");
  const TokenId ab = words.merge("a", "b");
  words.add("abc");
  words.merge_only("ab", "c");
  const Tokenizer tokenizer = words.build();
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{'a', bc}));
  EXPECT_EQ(encode(tokenizer, "ab"), (Ids{ab}));
}

TEST(Tokenizer, NeverMergesAcrossPieces) {
  TinyVocabulary words;
  words.merge("a", " ");
  words.merge(" ", "b");
  const Tokenizer tokenizer = words.build();
  EXPECT_EQ(encode(tokenizer, "a b"), (Ids{'a', *tokenizer.find_token(" b")}));
}

TEST(Tokenizer, ParsesSpecialTokensOnlyWhenTold) {
  TinyVocabulary words;
  const TokenId start = words.add("<|im_start|>", TokenType::Control);
  const TokenId think = words.add("<think>", TokenType::UserDefined);
  const Tokenizer tokenizer = words.build();
  const std::string text = "a<|im_start|><think>b";
  EXPECT_EQ(encode(tokenizer, text, ParseSpecial::Yes), (Ids{'a', start, think, 'b'}));
  EXPECT_EQ(encode(tokenizer, text, ParseSpecial::No).size(), text.size());
  EXPECT_EQ(decode(tokenizer, encode(tokenizer, text)), text);
  EXPECT_TRUE(tokenizer.is_control(start));
  EXPECT_FALSE(tokenizer.is_control(think));
}

TEST(Tokenizer, FindsTheLeftmostThenLongestSpecialToken) {
  TinyVocabulary words;
  const TokenId shorter = words.add("<a>", TokenType::Control);
  const TokenId longer = words.add("<a><b>", TokenType::Control);
  const TokenId inner = words.add("a><", TokenType::Control);
  const Tokenizer tokenizer = words.build();
  EXPECT_EQ(encode(tokenizer, "<a><b>", ParseSpecial::Yes), (Ids{longer}));
  EXPECT_EQ(encode(tokenizer, "<a><c>", ParseSpecial::Yes), (Ids{shorter, '<', 'c', '>'}));
  EXPECT_EQ(encode(tokenizer, "xa><", ParseSpecial::Yes), (Ids{'x', inner}));
  EXPECT_EQ(encode(tokenizer, "<a", ParseSpecial::Yes), (Ids{'<', 'a'}));
  EXPECT_EQ(tokenizer.find_special("..<a>", 0)->begin, 2u);
  EXPECT_EQ(tokenizer.find_special("<a>", 1), std::nullopt);
}

TEST(Tokenizer, LeavesOutBytesWithoutAToken) {
  TinyVocabulary words;
  TokenizerParts parts = words.parts();
  parts.types[4] = TokenType::Unused;
  const auto tokenizer = Tokenizer::from_parts(parts);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(encode(*tokenizer, "a\x04z"), (Ids{'a', 'z'}));
  EXPECT_EQ(encode(*tokenizer, "\x04"), Ids{});
}

TEST(Tokenizer, ReadsByteTokensExactly) {
  TinyVocabulary words;
  TokenizerParts parts = words.parts();
  parts.tokens[255] = "<0xFF>";
  parts.types[255] = TokenType::Byte;
  parts.tokens[254] = "<0xfe>";
  parts.types[254] = TokenType::Byte;
  const auto tokenizer = Tokenizer::from_parts(parts);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->token_bytes(255), "\xFF");
  EXPECT_EQ(tokenizer->token_bytes(254), "<0xfe>");
  EXPECT_EQ(encode(*tokenizer, "\xFF"), (Ids{255}));
}

TEST(Tokenizer, KnowsTheTokensThatEndATurn) {
  TinyVocabulary words;
  const TokenId eos = words.add("</s>", TokenType::Control);
  const TokenId eot = words.add("<turn>", TokenType::Control);
  const TokenId named = words.add("<|im_end|>", TokenType::Control);
  const TokenId text = words.add("<|end|>");
  const TokenId other = words.add("<reponame>", TokenType::Control);
  TokenizerParts parts = words.parts();
  parts.eos = eos;
  parts.eot = eot;
  const auto tokenizer = Tokenizer::from_parts(parts);
  ASSERT_TRUE(tokenizer);
  for (const TokenId id : {eos, eot, named}) EXPECT_TRUE(tokenizer->is_end_of_generation(id)) << id;
  for (const TokenId id : {text, other, TokenId{'a'}}) {
    EXPECT_FALSE(tokenizer->is_end_of_generation(id)) << id;
  }
}

TEST(Tokenizer, TellsWhetherABosIsExpected) {
  TinyVocabulary words;
  TokenizerParts parts = words.parts();
  parts.adds_bos = true;
  EXPECT_FALSE(Tokenizer::from_parts(parts)->adds_bos()) << "there is no bos to add";
  parts.bos = 7;
  const auto tokenizer = Tokenizer::from_parts(parts);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos(), 7u);
  EXPECT_EQ(encode(*tokenizer, "a"), (Ids{'a'})) << "encode() adds nothing";
}

TEST(Tokenizer, FindsTokensByTheirBytes) {
  TinyVocabulary words;
  const TokenId long_one = words.add(spell(std::string(1'000, ' ')));
  const Tokenizer tokenizer = words.build();
  EXPECT_EQ(tokenizer.find_token(" "), TokenId{' '});
  EXPECT_EQ(tokenizer.find_token(std::string(1'000, ' ')), long_one);
  EXPECT_EQ(tokenizer.find_token("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.longest_token_bytes(), 1'000u);
  EXPECT_EQ(tokenizer.vocab_size(), 257u);
}

struct BadParts {
  const char* name;
  std::function<void(TokenizerParts&)> apply;
  const char* where;
  const char* what;
};
void PrintTo(const BadParts& bad, std::ostream* out) { *out << bad.name; }

class BadTokenizer : public testing::TestWithParam<BadParts> {};

TEST_P(BadTokenizer, IsRefusedWithPlaceAndReason) {
  TinyVocabulary words;
  words.merge("a", "b");
  TokenizerParts parts = words.parts();
  GetParam().apply(parts);
  const auto tokenizer = Tokenizer::from_parts(parts);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().where, GetParam().where);
  EXPECT_NE(tokenizer.error().what.find(GetParam().what), std::string::npos)
      << tokenizer.error().what;
}

const std::string& too_long() {
  static const std::string text(TokenizerLimits::kMaxTokenBytes + 1, 'x');
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    EachField, BadTokenizer,
    testing::Values(BadParts{"Empty", [](TokenizerParts& p) { p = {}; },
                             "key tokenizer.ggml.tokens", "0 tokens"},
                    BadParts{"PreTokenizer", [](TokenizerParts& p) { p.pre_tokenizer = "tekken"; },
                             "key tokenizer.ggml.pre",
                             "\"tekken\" is not supported (gpt-2, default, smollm"},
                    BadParts{"Types", [](TokenizerParts& p) { p.types.pop_back(); },
                             "key tokenizer.ggml.token_type", "one entry per token"},
                    BadParts{"LongToken", [](TokenizerParts& p) { p.tokens[3] = too_long(); },
                             "key tokenizer.ggml.tokens", "token 3 has 65537 bytes"},
                    BadParts{"LongSpecial",
                             [](TokenizerParts& p) {
                               p.tokens[3] = std::string_view(too_long()).substr(0, 257);
                               p.types[3] = TokenType::Control;
                             },
                             "key tokenizer.ggml.tokens", "special token 3 has 257 bytes"},
                    BadParts{"EmptySpecial",
                             [](TokenizerParts& p) {
                               p.tokens[3] = "";
                               p.types[3] = TokenType::UserDefined;
                             },
                             "key tokenizer.ggml.tokens", "special token 3 has 0 bytes"},
                    BadParts{"Bos", [](TokenizerParts& p) { p.bos = 257; }, "key tokenizer.ggml",
                             "not below the vocabulary size"},
                    BadParts{"MergeWithoutSpace", [](TokenizerParts& p) { p.merges[0] = "ab"; },
                             "key tokenizer.ggml.merges", "merge 0 is not two symbols"},
                    BadParts{"MergeOfThree", [](TokenizerParts& p) { p.merges[0] = "a b c"; },
                             "key tokenizer.ggml.merges", "merge 0 is not two symbols"},
                    BadParts{"MergeEmptySide", [](TokenizerParts& p) { p.merges[0] = " b"; },
                             "key tokenizer.ggml.merges", "merge 0 is not two symbols"},
                    BadParts{"MergeUnknown", [](TokenizerParts& p) { p.merges[0] = "a c"; },
                             "key tokenizer.ggml.merges", "merge 0 names a token that is not"}),
    [](const auto& entry) { return entry.param.name; });

// The same lists as keys of a file.
TEST(Tokenizer, ReadsItsListsFromAFileAndNamesWrongKeys) {
  using namespace tests;
  constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kString = 8, kArray = 9;
  const auto build = [&](std::string_view model, std::uint32_t eos, std::uint32_t type,
                         bool has_merges) {
    RawGguf image;
    image.keys = {
        raw_key("tokenizer.ggml.model", kString, raw_text(model)),
        raw_key("tokenizer.ggml.tokens", kArray,
                raw_array(kString, 4,
                          raw_text("a") + raw_text("b") + raw_text("ab") + raw_text("<|im_end|>"))),
        raw_key("tokenizer.ggml.token_type", kArray,
                raw_array(kInt32, 4, raw_u32(1) + raw_u32(1) + raw_u32(1) + raw_u32(type))),
        raw_key("tokenizer.ggml.eos_token_id", kUint32, raw_u32(eos)),
    };
    if (has_merges) {
      image.keys.push_back(
          raw_key("tokenizer.ggml.merges", kArray, raw_array(kString, 1, raw_text("a b"))));
    }
    return image.bytes();
  };
  const auto load = [](const std::string& bytes) {
    const auto file =
        GgufFile::parse({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    return Tokenizer::from_gguf(file.value());
  };
  const auto tokenizer = load(build("gpt2", 3, 3, true));
  ASSERT_TRUE(tokenizer) << tokenizer.error().what;
  EXPECT_EQ(encode(*tokenizer, "abba<|im_end|>", ParseSpecial::Yes), (Ids{2, 1, 0, 3}));
  EXPECT_EQ(tokenizer->pre_tokenizer_name(), "default");
  EXPECT_EQ(load(build("llama", 3, 3, true)).error().what,
            "tokenizer \"llama\" is not supported (gpt2 is)");
  EXPECT_EQ(load(build("gpt2", 4, 3, true)).error().where, "key tokenizer.ggml.eos_token_id");
  EXPECT_EQ(load(build("gpt2", 3, 7, true)).error().what, "token 3 has type 7 (1 to 6 are known)");
  EXPECT_EQ(load(build("gpt2", 3, 3, false)).error().where, "key tokenizer.ggml.merges");
}

TEST(Tokenizer, KeepsEveryByteOfAnyInput) {
  TinyVocabulary words;
  words.merge("a", "a");
  words.merge("aa", "aa");
  words.merge("\xC3", "\xA9");
  words.merge(" ", "t");
  words.merge(" t", "h");
  const Tokenizer tokenizer = words.build();
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    const std::size_t length = random() % 100;
    for (std::size_t i = 0; i < length; ++i) {
      constexpr std::string_view kLikely = "aaaa th \n1'\xC3\xA9";
      text += random() % 4 == 0 ? static_cast<char>(random()) : kLikely[random() % kLikely.size()];
    }
    ASSERT_EQ(decode(tokenizer, encode(tokenizer, text)), text) << "seed " << seed;
    ASSERT_EQ(decode(tokenizer, encode(tokenizer, text, ParseSpecial::Yes)), text);
  }
}

// Who can use only so many tokens need not pay for the rest of a text.
TEST(Tokenizer, StopsAfterThePieceThatPassesTheLimit) {
  TinyVocabulary words;
  const TokenId stop = words.add("<s>", TokenType::Control);
  const Tokenizer tokenizer = words.build();
  const auto count = [&](std::string_view text, std::size_t most) {
    Ids ids;
    tokenizer.encode(text, ParseSpecial::Yes, ids, most);
    return ids.size();
  };
  EXPECT_EQ(encode(tokenizer, "a1b<s>", ParseSpecial::Yes), (Ids{'a', '1', 'b', stop}));
  EXPECT_EQ(count("a1b<s>", 4), 4U);
  EXPECT_EQ(count("a1b1c1d1e", 2), 3U);
  EXPECT_EQ(count("<s><s><s><s>", 2), 3U);
  EXPECT_EQ(count("abc", 0), 3U) << "a piece is never cut";
}

// Quadratic merging or scanning would need a million times a million steps and never come back.
TEST(Tokenizer, AMillionEqualCharactersTakeLinearTime) {
  TinyVocabulary words;
  for (const std::string unit : {"a", " ", "\xE4\xB8\x80", "\n"}) {
    if (unit.size() > 1) {
      words.merge("\xE4", "\xB8");
      words.merge("\xE4\xB8", "\x80");
    }
    for (std::string run = unit; run.size() < 64; run += run) words.merge(run, run);
  }
  const Tokenizer tokenizer = words.build();
  for (const std::string unit : {"a", " ", "\xE4\xB8\x80", "\n", "^", "1", "\xFF", "'"}) {
    std::string text;
    for (std::uint32_t i = 0; i < tests::repeats(1'000'000); ++i) text += unit;
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = encode(tokenizer, text, ParseSpecial::Yes);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 10.0) << unit;
    EXPECT_EQ(decode(tokenizer, ids), text) << unit;
  }
}

class DefaultModelTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = tests::test_model_path();
    if (!path) GTEST_SKIP() << tests::kNoTestModel;
    auto file = GgufFile::open(*path);
    ASSERT_TRUE(file) << file.error().what;
    auto tokenizer = Tokenizer::from_gguf(*file);
    ASSERT_TRUE(tokenizer) << tokenizer.error().where << ": " << tokenizer.error().what;
    tokenizer_.emplace(std::move(*tokenizer));
  }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(DefaultModelTokenizer, EqualsTheReferenceOnEveryGoldenLine) {
  const std::size_t lines = for_each_golden_line(
      "smollm2/tokenize.jsonl", [&](simdjson::dom::element line, std::size_t number) {
        const std::string text = string_at(line, "text");
        const ParseSpecial special =
            bool_at(line, "parse_special") ? ParseSpecial::Yes : ParseSpecial::No;
        EXPECT_EQ(encode(*tokenizer_, text, special), ids_at(line, "ids"))
            << "line " << number << ": " << text;
        if (special == ParseSpecial::No && !bool_at(line, "lossy")) {
          EXPECT_EQ(decode(*tokenizer_, ids_at(line, "ids")), text) << "line " << number;
        }
      });
  EXPECT_EQ(lines, 679u);
}

TEST_F(DefaultModelTokenizer, HasTheFactsOfItsFile) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49'152u);
  EXPECT_EQ(tokenizer_->pre_tokenizer_name(), "smollm");
  EXPECT_EQ(tokenizer_->bos(), 1u);
  EXPECT_EQ(tokenizer_->eos(), 2u);
  EXPECT_FALSE(tokenizer_->adds_bos());
  EXPECT_EQ(tokenizer_->find_token("<|im_start|>"), 1u);
  for (TokenId id = 0; id < 49'152; ++id) {
    EXPECT_EQ(tokenizer_->is_control(id), id < 17) << id;
    EXPECT_EQ(tokenizer_->is_end_of_generation(id), id == 0 || id == 2) << id;
  }
}

// Whatever a token's bytes are encoded as, they say the same.
TEST_F(DefaultModelTokenizer, EveryTokenSurvivesARoundTrip) {
  for (TokenId id = 17; id < tokenizer_->vocab_size(); ++id) {
    const std::string bytes(tokenizer_->token_bytes(id));
    const Ids ids = encode(*tokenizer_, bytes);
    ASSERT_EQ(decode(*tokenizer_, ids), bytes) << id;
  }
}

}  // namespace
}  // namespace turnstile::engine
