#include "engine/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/utf8.h"
#include "tests/engine/golden_lines.h"

namespace turnstile::engine {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text, at);
    if (c.code_point == kInvalidCodePoint) return false;
    at += c.byte_count;
  }
  return true;
}

std::string decode_at_once(std::string_view bytes) {
  Detokenizer detokenizer;
  std::string out;
  detokenizer.append(bytes, out);
  detokenizer.flush(out);
  return out;
}

// The reference is CPython's incremental decoder. It holds back the first two bytes of a surrogate,
// which cannot become a character; we do not, so that line is compared as a whole.
TEST(Detokenizer, EqualsTheReferenceStepByStep) {
  std::size_t steps = 0;
  const std::size_t lines = for_each_golden_line(
      "smollm2/detokenize.jsonl", [&](simdjson::dom::element line, std::size_t number) {
        const bool holds_surrogate = string_at(line, "note").find("surrogate") != std::string::npos;
        Detokenizer detokenizer;
        std::string all, expected;
        const simdjson::dom::array pieces = line["bytes"].get_array().value();
        const simdjson::dom::array emits = line["emit"].get_array().value();
        auto emit = emits.begin();
        for (const simdjson::dom::element piece : pieces) {
          std::string out;
          detokenizer.append(from_hex(std::string_view(piece)), out);
          if (!holds_surrogate) {
            EXPECT_EQ(out, std::string_view(*emit)) << "line " << number;
          }
          all += out;
          expected += std::string_view(*emit);
          ++emit;
          ++steps;
        }
        detokenizer.flush(all);
        EXPECT_EQ(all, expected + string_at(line, "flush")) << "line " << number;
      });
  EXPECT_EQ(lines, 85u);
  EXPECT_GT(steps, 500u);
}

// Table 3-8 of Unicode 15 and its neighbours: one U+FFFD for each maximal subpart.
TEST(Detokenizer, ReplacesEachMaximalSubpartOnce) {
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"\x80", r},
      {"\xC0\xAF", r + r},
      {"\xE0\x80\xBF", r + r + r},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF0\x80\x80\x41", r + r + r + "A"},
      {"\xF0\x90\x80", r},
      {"a\xE4\xB8", "a" + r},
      {"\xE4\xE4\xB8\x80", r + "\xE4\xB8\x80"},
      {"\xF5\x80", r + r},
  };
  for (const auto& [bytes, expected] : table) EXPECT_EQ(decode_at_once(bytes), expected);
}

TEST(Detokenizer, NeverSplitsACharacterAndIgnoresWhereTokensEnd) {
  const std::string text = "a\xC3\xA9\xE4\xB8\x80\xF0\x9F\x98\x80z";
  for (std::uint32_t cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
    Detokenizer detokenizer;
    std::string all;
    std::string token;
    for (std::size_t i = 0; i < text.size(); ++i) {
      token += text[i];
      if (i + 1 < text.size() && (cuts >> i & 1) == 0) continue;
      std::string out;
      detokenizer.append(token, out);
      ASSERT_TRUE(is_valid_utf8(out)) << cuts;
      ASSERT_LE(detokenizer.pending_bytes(), 3u);
      all += out;
      token.clear();
    }
    detokenizer.flush(all);
    ASSERT_EQ(all, text) << cuts;
    ASSERT_EQ(detokenizer.pending_bytes(), 0u);
  }
}

TEST(Detokenizer, RandomBytesGiveTheSameTextHoweverTheyAreCut) {
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    constexpr std::string_view kLikely = "\xC3\xA9\xE4\xB8\x80\xF0\x9F\x98\x80\xE0\xED\xF4 a";
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) {
      c = random() % 3 == 0 ? static_cast<char>(random()) : kLikely[random() % kLikely.size()];
    }
    Detokenizer detokenizer;
    std::string out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + random() % 3;
      detokenizer.append(std::string_view(bytes).substr(at, length), out);
      ASSERT_TRUE(is_valid_utf8(out)) << "seed " << seed;
      at += length;
    }
    detokenizer.flush(out);
    ASSERT_EQ(out, decode_at_once(bytes)) << "seed " << seed;
    ASSERT_TRUE(is_valid_utf8(out)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace turnstile::engine
