#include "bench/load/answer_event.h"

#include <gtest/gtest.h>

namespace turnstile::load {
namespace {

TEST(AnswerReader, RoleChunkAndEmptyDeltaHaveNoText) {
  AnswerReader reader;
  EXPECT_FALSE(reader.read(R"({"choices":[{"delta":{"role":"assistant"}}]})")->has_text);
  EXPECT_FALSE(reader.read(R"({"choices":[{"delta":{"content":""}}]})")->has_text);
  EXPECT_FALSE(reader.read(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})")->has_text);
  EXPECT_TRUE(reader.read(R"({"choices":[{"delta":{"content":"a"}}]})")->has_text);
}

TEST(AnswerReader, ReadsTheTextOfEveryDialect) {
  AnswerReader reader;
  const char* table[] = {
      R"({"choices":[{"delta":{"content":"hi"},"finish_reason":null}]})",
      R"({"choices":[{"message":{"role":"assistant","content":"hi"}}]})",
      R"({"choices":[{"text":"hi"}]})",
      R"({"content":"hi","stop":false})",
  };
  for (const char* json : table) {
    const auto event = reader.read(json);
    ASSERT_TRUE(event) << json;
    EXPECT_EQ(event->text, "hi") << json;
    EXPECT_FALSE(event->finish_reason) << json;
  }
}

TEST(AnswerReader, ReadsUsageAndCachedTokens) {
  AnswerReader reader;
  const auto event = reader.read(
      R"({"choices":[],"usage":{"prompt_tokens":64,"completion_tokens":96,)"
      R"("prompt_tokens_details":{"cached_tokens":48}}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->prompt_tokens, 64u);
  EXPECT_EQ(event->completion_tokens, 96u);
  EXPECT_EQ(event->cached_tokens, 48u);
}

TEST(AnswerReader, ReadsTheCountsOfLlamaServersLastEvent) {
  AnswerReader reader;
  const auto event = reader.read(
      R"({"content":"","stop":true,"stop_type":"limit","tokens_predicted":96,)"
      R"("tokens_evaluated":64,"timings":{"cache_n":3}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->finish_reason, "limit");
  EXPECT_EQ(event->completion_tokens, 96u);
  EXPECT_EQ(event->prompt_tokens, 64u);
  EXPECT_EQ(event->cached_tokens, 3u);
}

TEST(AnswerReader, ReadsWhatTurnstileSaysOfItself) {
  AnswerReader reader;
  const auto event = reader.read(
      R"({"choices":[],"usage":{"completion_tokens":9},"turnstile":{"queue_ms":1.5,"ttft_ms":20.25,)"
      R"("pauses":1,"end_code":"budget_exhausted"}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->queue_ms, 1.5);
  EXPECT_EQ(event->server_ttft_ms, 20.25);
  EXPECT_EQ(event->pauses, 1u);
  EXPECT_EQ(event->end_code, "budget_exhausted");
  EXPECT_FALSE(reader.read(R"({"choices":[{"text":"a"}]})")->queue_ms);
}

TEST(AnswerReader, ReadsTheCodeOfAnError) {
  AnswerReader reader;
  EXPECT_EQ(reader.read(R"({"error":{"message":"m","type":"t","code":"queue_full"}})")->error_code,
            "queue_full");
  EXPECT_EQ(reader.read(R"({"error":{"message":"m","type":"t","code":null}})")->error_code, "t");
  EXPECT_EQ(reader.read(R"({"error":"text"})")->error_code, "error");
  EXPECT_FALSE(reader.read(R"({"choices":[],"error":null})")->error_code);
}

TEST(AnswerReader, SaysWhatIsNotAnAnswer) {
  AnswerReader reader;
  EXPECT_FALSE(reader.read("[DONE]"));
  EXPECT_FALSE(reader.read("{"));
  EXPECT_FALSE(reader.read(""));
}

}  // namespace
}  // namespace turnstile::load
