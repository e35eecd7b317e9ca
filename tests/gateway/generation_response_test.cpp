#include "gateway/api/generation_response.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <limits>

namespace turnstile::gateway {
namespace {

namespace json = boost::json;

// The JSON documents of an SSE text; fails when a line is neither an event nor empty.
std::vector<json::value> events(std::string_view sse) {
  std::vector<json::value> result;
  while (!sse.empty()) {
    const std::size_t end = sse.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << "an event ends with an empty line";
    if (end == std::string_view::npos) return result;
    const std::string_view event = sse.substr(0, end);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    EXPECT_EQ(event.find('\n'), std::string_view::npos) << "one line an event";
    const std::string_view data = event.substr(6);
    if (data != "[DONE]") result.push_back(json::parse({data.data(), data.size()}));
    sse.remove_prefix(end + 2);
  }
  return result;
}

GenerationRequest chat_request() {
  GenerationRequest request;
  request.api = Api::Chat;
  return request;
}

ResponseFormat format_of(const GenerationRequest& request) {
  return ResponseFormat(request, "42", "a \"model\"", 1'700'000'000);
}

TEST(ChatStream, RoleChunkComesInTheSameWriteAsTheFirstText) {
  const GenerationRequest request = chat_request();
  ResponseFormat format = format_of(request);
  std::string out;
  format.first_chunk(out, 0, "Hi\n\"there\"", {});
  format.chunk(out, 0, " you", {});
  format.finish_chunk(out, 0, {});
  out += kSseDone;
  const auto list = events(out);
  ASSERT_EQ(list.size(), 4U);
  for (const json::value& event : list) {
    EXPECT_EQ(event.at("id").as_string(), "chatcmpl-42");
    EXPECT_EQ(event.at("object").as_string(), "chat.completion.chunk");
    EXPECT_EQ(event.at("created").as_int64(), 1'700'000'000);
    EXPECT_EQ(event.at("model").as_string(), "a \"model\"");
  }
  const auto choice = [&](std::size_t i) { return list[i].at("choices").at(0); };
  EXPECT_EQ(choice(0).at("delta").at("role").as_string(), "assistant");
  EXPECT_EQ(choice(1).at("delta").at("content").as_string(), "Hi\n\"there\"");
  EXPECT_TRUE(choice(1).at("finish_reason").is_null());
  EXPECT_EQ(choice(2).at("delta").at("content").as_string(), " you");
  EXPECT_TRUE(choice(3).at("delta").as_object().empty());
  EXPECT_EQ(choice(3).at("finish_reason").as_string(), "stop");
}

TEST(ChatStream, TokenWithoutTextMakesNoChunk) {
  const GenerationRequest request = chat_request();
  ResponseFormat format = format_of(request);
  std::string out;
  format.chunk(out, 0, "", {});
  EXPECT_EQ(out, "");
}

TEST(ChatStream, UsageChunkHasNoChoicesAndExplainsTheAnswer) {
  GenerationRequest request = chat_request();
  request.include_usage = true;
  ResponseFormat format = format_of(request);
  std::string out;
  format.first_chunk(out, 0, "x", {});
  Explained explained;
  explained.service_class = "interactive";
  explained.policy = "r1-00000000";
  explained.queue_ms = 1.25;
  explained.cached_tokens = 16;
  format.usage_chunk(out, {20, 5, 16}, explained);
  const auto list = events(out);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_TRUE(list[1].at("usage").is_null());
  const json::value& last = list[2];
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_EQ(last.at("usage").at("prompt_tokens").as_int64(), 20);
  EXPECT_EQ(last.at("usage").at("completion_tokens").as_int64(), 5);
  EXPECT_EQ(last.at("usage").at("total_tokens").as_int64(), 25);
  EXPECT_EQ(last.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 16);
  EXPECT_EQ(last.at("turnstile").at("class").as_string(), "interactive");
  EXPECT_EQ(last.at("turnstile").at("policy").as_string(), "r1-00000000");
  EXPECT_DOUBLE_EQ(last.at("turnstile").at("queue_ms").as_double(), 1.25);
  EXPECT_EQ(last.at("turnstile").as_object().count("end_code"), 0U);
}

TEST(ChatStream, RunningUsageIsOnEveryChunkThatAsksForIt) {
  const GenerationRequest request = chat_request();
  ResponseFormat format = format_of(request);
  const Usage usage{3, 1, 0};
  std::string out;
  format.chunk(out, 1, "x", {.running_usage = &usage});
  const auto list = events(out);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].at("usage").at("total_tokens").as_int64(), 4);
  EXPECT_EQ(list[0].at("choices").at(0).at("index").as_int64(), 1);
}

TEST(ChatLogprobs, BytesAreTheTruthAndTextIsWholeCharacters) {
  GenerationRequest request = chat_request();
  request.logprobs = true;
  ResponseFormat format = format_of(request);
  const TokenLogprob half{7, "\xe4\xbd", -0.5F, {{8, "a", -std::numeric_limits<float>::infinity()}}};
  std::string out;
  format.chunk(out, 0, "", {.logprobs = std::span(&half, 1)});
  const auto list = events(out);
  ASSERT_EQ(list.size(), 1U);
  const json::value entry = list[0].at("choices").at(0).at("logprobs").at("content").at(0);
  EXPECT_EQ(entry.at("token").as_string(), "\xef\xbf\xbd");
  EXPECT_EQ(entry.at("bytes").at(0).as_int64(), 0xe4);
  EXPECT_EQ(entry.at("bytes").at(1).as_int64(), 0xbd);
  EXPECT_DOUBLE_EQ(entry.at("logprob").as_double(), -0.5);
  EXPECT_EQ(entry.at("top_logprobs").at(0).at("logprob").to_number<double>(), -9999.0);
}

TEST(Body, ChoicesUsageAndExplanationAreOneDocument) {
  const GenerationRequest request = chat_request();
  ResponseFormat format = format_of(request);
  std::vector<ChoiceResult> choices(2);
  choices[0].text = "one";
  choices[0].end.reason = engine::FinishReason::StopString;
  choices[0].end.stop_string = "END";
  choices[1].text = "two";
  choices[1].end.reason = engine::FinishReason::Length;
  std::string out;
  format.body(out, choices, {2, 3, 0}, {});
  const json::value body = json::parse(out);
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  EXPECT_EQ(body.at("choices").at(0).at("message").at("content").as_string(), "one");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason").as_string(), "stop");
  EXPECT_EQ(body.at("choices").at(0).at("stop_reason").as_string(), "END");
  EXPECT_TRUE(body.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(body.at("choices").at(1).at("index").as_int64(), 1);
  EXPECT_EQ(body.at("choices").at(1).at("finish_reason").as_string(), "length");
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 5);
}

TEST(CompletionBody, HasTextAndTheLegacyLogprobArrays) {
  GenerationRequest request;
  request.api = Api::Completions;
  request.logprobs = true;
  ResponseFormat format = format_of(request);
  std::vector<ChoiceResult> choices(1);
  choices[0].text = "ab c";
  choices[0].logprobs = {{1, "ab", -0.25F, {{1, "ab", -0.25F}}}, {2, " c", -1.0F, {}}};
  std::string out;
  format.body(out, choices, {1, 2, 0}, {});
  const json::value body = json::parse(out);
  EXPECT_EQ(body.at("id").as_string(), "cmpl-42");
  EXPECT_EQ(body.at("object").as_string(), "text_completion");
  const json::value choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("text").as_string(), "ab c");
  EXPECT_EQ(choice.at("logprobs").at("tokens").at(1).as_string(), " c");
  EXPECT_EQ(choice.at("logprobs").at("text_offset").at(1).as_int64(), 2);
  EXPECT_DOUBLE_EQ(choice.at("logprobs").at("top_logprobs").at(0).at("ab").as_double(), -0.25);
}

TEST(TokenIds, AreSentOnlyWhenAskedFor) {
  GenerationRequest request = chat_request();
  request.return_token_ids = true;
  ResponseFormat format = format_of(request);
  const engine::TokenId ids[] = {5};
  const engine::TokenId prompt[] = {1, 2};
  std::string out;
  format.first_chunk(out, 0, "x", {.token_ids = ids, .prompt_ids = prompt});
  const auto list = events(out);
  ASSERT_EQ(list.size(), 2U);
  const json::value choice = list[1].at("choices").at(0);
  EXPECT_EQ(choice.at("token_ids").at(0).as_int64(), 5);
  EXPECT_EQ(choice.at("prompt_token_ids").as_array().size(), 2U);
}

TEST(ErrorEvent, IsOneEventInOpenAiShape) {
  std::string out;
  append_error_event(out, make_error(ApiCode::DecodeStall, "no token for 30 s"), "7");
  const auto list = events(out);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].at("error").at("code").as_string(), "decode_stall");
  EXPECT_EQ(list[0].at("error").at("type").as_string(), "timeout_error");
}

TEST(ModelRoutes, BodiesHaveTheShapesOfOpenAiAndVllm) {
  std::string out;
  const ModelCard cards[] = {{"chat", 5, "smollm2", 2'048, 1'000, std::nullopt}, {"b", 5, "b", 1, {}, {}}};
  append_model_list(out, cards);
  const json::value models = json::parse(out);
  EXPECT_EQ(models.at("data").as_array().size(), 2U);
  EXPECT_EQ(models.at("data").at(0).at("max_model_len").as_int64(), 2'048);
  EXPECT_EQ(models.at("data").at(0).at("max_input_tokens").as_int64(), 1'000);
  EXPECT_EQ(models.at("data").at(1).as_object().count("max_input_tokens"), 0U);

  out.clear();
  const engine::TokenId tokens[] = {1, 2};
  append_tokenize_body(out, tokens, 2'048, {}, false);
  EXPECT_EQ(out, R"({"count":2,"max_model_len":2048,"tokens":[1,2],"token_strs":null})");
  out.clear();
  append_detokenize_body(out, "a\"b");
  EXPECT_EQ(out, R"({"prompt":"a\"b"})");
}

}  // namespace
}  // namespace turnstile::gateway
