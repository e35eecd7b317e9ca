#include "gateway/prompt_tokens.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/toy_tokenizer.h"

namespace turnstile::gateway {
namespace {

constexpr std::size_t kContext = 64;
constexpr std::size_t kCacheTokens = 128;

tl::expected<std::vector<TokenIds>, ApiError> encode(std::vector<Prompt> prompts) {
  const auto tokenizer = tests::toy_tokenizer();
  const ModelFacts model{.vocab_size = tokenizer->vocab_size(),
                         .max_model_len = kContext,
                         .max_prompt_tokens = kCacheTokens};
  GenerationRequest request;
  request.api = Api::Completions;
  request.prompts = std::move(prompts);
  return PromptEncoder{*tokenizer, nullptr, model, WallTime{}}.encode(request);
}

std::string text(std::size_t bytes) { return std::string(bytes, 'b'); }

void expect_too_long(const std::vector<Prompt>& prompts) {
  const auto refused = encode(prompts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_string(refused.error().code), "context_length_exceeded");
  EXPECT_EQ(refused.error().param, "prompt");
}

TEST(PromptTokens, OneListForEachPrompt) {
  const auto prompts = encode({text(3), TokenIds{1, 2}});
  ASSERT_TRUE(prompts);
  ASSERT_EQ(prompts->size(), 2U);
  EXPECT_EQ((*prompts)[0].size(), 3U);
  EXPECT_EQ((*prompts)[1], (TokenIds{1, 2}));
}

// Policy says how many tokens were asked for, as long as somebody may have meant them.
TEST(PromptTokens, UpToTwiceTheContextIsForPolicyToJudge) {
  const auto prompts = encode({text(2 * kContext)});
  ASSERT_TRUE(prompts);
  EXPECT_EQ((*prompts)[0].size(), 2 * kContext);
}

// Such texts held the I/O thread for as long as all of them take to tokenize.
TEST(PromptTokens, MoreIsRefusedHere) {
  expect_too_long({text(2 * kContext + 1)});
  expect_too_long({text(3), text(2 * kContext + 1)});
  expect_too_long({TokenIds(2 * kContext + 1, 1)});
}

TEST(PromptTokens, PromptsThatTheCacheCannotHoldTogetherAreRefused) {
  EXPECT_TRUE(encode({text(60), text(60), text(8)}));
  expect_too_long({text(60), text(60), text(9)});
}

TEST(PromptTokens, AnEmptyPromptIsInvalid) {
  const auto refused = encode({TokenIds{}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_string(refused.error().code), "invalid_value");
}

}  // namespace
}  // namespace turnstile::gateway
