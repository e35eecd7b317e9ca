#include "engine/loader/same_vocabulary.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace turnstile::engine {
namespace {

Tokenizer tokenizer_of(const std::vector<std::string_view>& tokens,
                       const std::vector<TokenType>& types) {
  TokenizerParts parts;
  parts.tokens = tokens;
  parts.types = types;
  auto made = Tokenizer::from_parts(parts);
  EXPECT_TRUE(made);
  return std::move(*made);
}

TEST(SameVocabulary, NamesTheFirstDifference) {
  using enum TokenType;
  const Tokenizer model = tokenizer_of({"a", "b", "<end>"}, {Normal, Normal, Control});
  EXPECT_FALSE(find_vocabulary_difference(model, model));
  const auto fewer = find_vocabulary_difference(model, tokenizer_of({"a", "b"}, {Normal, Normal}));
  EXPECT_EQ(fewer, "has 2 tokens, the model has 3");
  const auto other =
      find_vocabulary_difference(model, tokenizer_of({"a", "c", "<end>"}, {Normal, Normal, Control}));
  EXPECT_EQ(other, "has another token 1 than the model");
  const auto plain =
      find_vocabulary_difference(model, tokenizer_of({"a", "b", "<end>"}, {Normal, Normal, Normal}));
  EXPECT_EQ(plain, "has another token 2 than the model");
}

}  // namespace
}  // namespace turnstile::engine
