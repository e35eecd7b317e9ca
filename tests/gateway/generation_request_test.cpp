#include "gateway/api/generation_request.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace turnstile::gateway {
namespace {

constexpr ModelFacts kFacts{1'000, 2'048};

tl::expected<GenerationRequest, ApiError> parse(Api api, std::string_view body) {
  RequestParser parser{JsonLimits{}};
  return parser.parse(api, body, kFacts);
}

// A chat body with `fields` after the messages.
std::string chat(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (fields.empty() ? "" : "," + fields) +
         "}";
}

std::string completion(const std::string& fields) {
  return R"({"prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}";
}

struct Refused {
  std::string body;
  ApiCode code;
  std::optional<std::string> param;
};

void expect_refused(Api api, const Refused& row) {
  const auto parsed = parse(api, row.body);
  ASSERT_FALSE(parsed) << row.body;
  EXPECT_EQ(to_string(parsed.error().code), to_string(row.code)) << row.body;
  EXPECT_EQ(parsed.error().param, row.param) << row.body;
  EXPECT_FALSE(parsed.error().message.empty());
}

TEST(JsonBody, TextThatIsNotCleanJsonIsInvalidJsonWithoutAParam) {
  const std::string deep(40, '[');
  const std::string rows[] = {
      "",
      "{",
      "[]",
      "\"text\"",
      "nul",
      "{} {}",
      "{\"a\":1,}",
      "{'a':1}",
      "\xef\xbb\xbf{\"a\":\"\xff\"}",
      "{\"a\":\"\xc0\xaf\"}",
      R"({"a":"\ud800"})",
      R"({"a":"\udc00"})",
      R"({"\udc00":1})",
      R"({"a":["x",{"b":"\udfff!"}]})",
      R"({"a":1,"a":2})",
      R"({"m":{"x":1,"y":2,"x":3}})",
      R"({"a":NaN})",
      R"({"a":Infinity})",
      R"({"a":1e400})",
      R"({"a":-1e400})",
      R"({"a":18446744073709551616})",
      R"({"a":-9223372036854775809})",
      R"({"a":01})",
      R"({"a":+1})",
      R"({"a":.5})",
      "{\"a\":\"\x01\"}",
      "{\"a\":" + deep + std::string(40, ']') + "}",
  };
  for (const std::string& body : rows) {
    for (const Api api : {Api::Chat, Api::Completions}) {
      expect_refused(api, {body, ApiCode::InvalidJson, std::nullopt});
    }
  }
}

TEST(JsonBody, DepthAndKeyCountAreLimitedExactly) {
  RequestParser parser{JsonLimits{.max_depth = 4, .max_keys = 5}};
  // object > array > object > array is four levels.
  EXPECT_TRUE(parser.parse(Api::Completions, R"({"prompt":"x","a":[{"b":[1]}]})", kFacts));
  EXPECT_FALSE(parser.parse(Api::Completions, R"({"prompt":"x","a":[{"b":[[]]}]})", kFacts));
  EXPECT_TRUE(
      parser.parse(Api::Completions, R"({"prompt":"x","a":1,"b":2,"c":3,"d":4})", kFacts));
  EXPECT_FALSE(
      parser.parse(Api::Completions, R"({"prompt":"x","a":1,"b":2,"c":{"e":1},"d":4})", kFacts));
}

TEST(JsonBody, AParserGoesOnAfterABadBody) {
  RequestParser parser{JsonLimits{}};
  EXPECT_FALSE(parser.parse(Api::Chat, "{\"a\":", kFacts));
  EXPECT_TRUE(parser.parse(Api::Chat, chat(""), kFacts));
  const std::string large = chat(R"("user":")" + std::string(200'000, 'x') + '"');
  EXPECT_TRUE(parser.parse(Api::Chat, large, kFacts));
}

TEST(ChatRequest, DefaultsAreThoseOfTheInterface) {
  const auto request = parse(Api::Chat, chat(""));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->model, "");
  EXPECT_FALSE(request->stream);
  EXPECT_FALSE(request->max_tokens);
  EXPECT_EQ(request->choices, 1U);
  EXPECT_FLOAT_EQ(request->sampling.temperature, 1.0F);
  EXPECT_FLOAT_EQ(request->sampling.top_p, 1.0F);
  EXPECT_EQ(request->sampling.top_k, 0U);
  EXPECT_FALSE(request->has_seed);
  EXPECT_FALSE(request->sampling.top_logprobs);
  EXPECT_TRUE(request->skip_special_tokens);
  ASSERT_EQ(request->messages.size(), 1U);
  EXPECT_EQ(request->messages[0].role, "user");
  EXPECT_EQ(request->messages[0].content, "hi");
}

TEST(ChatRequest, ReadsEveryFieldThatItServes) {
  const auto request = parse(Api::Chat, R"({
    "model":"m","messages":[{"role":"system","content":"s"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"x"}],
    "max_tokens":5,"max_completion_tokens":7,"n":4,"temperature":0.5,"top_p":0.9,"top_k":40,
    "min_p":0.1,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.1,
    "seed":-9223372036854775808,"stop":["a","b"],"stop_token_ids":[3],"ignore_eos":true,
    "min_tokens":2,"include_stop_str_in_output":true,"logit_bias":{"12":-100,"13":1.5},
    "logprobs":true,"top_logprobs":20,"stream":true,
    "stream_options":{"include_usage":true,"continuous_usage_stats":true},
    "skip_special_tokens":false,"cache_salt":"pepper","service_tier":"flex",
    "return_token_ids":true,"return_tokens_as_token_ids":true,"add_generation_prompt":false,
    "user":"me","metadata":{"a":"b"},"store":true,"tools":[],"tool_choice":"none",
    "response_format":{"type":"text"},"modalities":["text"],"priority":0})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->messages[1].content, "a\nb");
  EXPECT_EQ(request->messages[1].name, "x");
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_EQ(request->max_tokens_name, "max_completion_tokens");
  EXPECT_EQ(request->choices, 4U);
  EXPECT_FLOAT_EQ(request->sampling.temperature, 0.5F);
  EXPECT_EQ(request->sampling.top_k, 40U);
  EXPECT_FLOAT_EQ(request->sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(request->sampling.presence_penalty, -2.0F);
  EXPECT_FLOAT_EQ(request->sampling.frequency_penalty, 2.0F);
  EXPECT_FLOAT_EQ(request->sampling.repetition_penalty, 1.1F);
  EXPECT_TRUE(request->has_seed);
  EXPECT_EQ(request->sampling.seed, std::uint64_t{1} << 63);
  EXPECT_EQ(request->stop.strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->stop.token_ids, (std::vector<engine::TokenId>{3}));
  EXPECT_TRUE(request->stop.ignore_eos);
  EXPECT_EQ(request->stop.min_tokens, 2U);
  EXPECT_TRUE(request->stop.include_stop_string);
  ASSERT_EQ(request->sampling.logit_bias.size(), 2U);
  EXPECT_EQ(request->sampling.logit_bias[1].first, 13U);
  EXPECT_FLOAT_EQ(request->sampling.logit_bias[1].second, 1.5F);
  EXPECT_EQ(request->sampling.top_logprobs, 20U);
  EXPECT_TRUE(request->include_usage);
  EXPECT_TRUE(request->continuous_usage_stats);
  EXPECT_FALSE(request->skip_special_tokens);
  EXPECT_EQ(request->cache_salt, "pepper");
  EXPECT_EQ(request->service_tier, "flex");
  EXPECT_TRUE(request->return_token_ids);
  EXPECT_FALSE(request->add_generation_prompt);
  EXPECT_TRUE(request->unknown_fields.empty());
}

TEST(ChatRequest, ValuesOutsideTheirRangeNameTheField) {
  const auto value = [](const std::string& field, std::string param) {
    return Refused{chat(field), ApiCode::InvalidValue, std::move(param)};
  };
  const Refused rows[] = {
      value(R"("temperature":2.01)", "temperature"),
      value(R"("temperature":-0.1)", "temperature"),
      value(R"("temperature":"hot")", "temperature"),
      value(R"("top_p":0)", "top_p"),
      value(R"("top_p":1.1)", "top_p"),
      value(R"("top_k":-2)", "top_k"),
      value(R"("top_k":1.0)", "top_k"),
      value(R"("min_p":1.5)", "min_p"),
      value(R"("presence_penalty":2.1)", "presence_penalty"),
      value(R"("frequency_penalty":-2.1)", "frequency_penalty"),
      value(R"("repetition_penalty":0)", "repetition_penalty"),
      value(R"("n":0)", "n"),
      value(R"("n":9)", "n"),
      value(R"("n":1.0)", "n"),
      value(R"("n":true)", "n"),
      value(R"("max_tokens":0)", "max_tokens"),
      value(R"("max_tokens":-1)", "max_tokens"),
      value(R"("max_tokens":9223372036854775808)", "max_tokens"),
      value(R"("max_completion_tokens":0)", "max_completion_tokens"),
      value(R"("seed":9223372036854775808)", "seed"),
      value(R"("seed":1.5)", "seed"),
      value(R"("stop":"")", "stop"),
      value(R"("stop":["a","b","c","d","e"])", "stop"),
      value(R"("stop":[1])", "stop"),
      value(R"("stop":")" + std::string(257, 'x') + '"', "stop"),
      value(R"("stop_token_ids":[1000])", "stop_token_ids"),
      value(R"("logit_bias":{"1000":1})", "logit_bias"),
      value(R"("logit_bias":{"-1":1})", "logit_bias"),
      value(R"("logit_bias":{"1x":1})", "logit_bias"),
      value(R"("logit_bias":{"1":101})", "logit_bias"),
      value(R"("logit_bias":[])", "logit_bias"),
      value(R"("logprobs":true,"top_logprobs":21)", "top_logprobs"),
      value(R"("top_logprobs":1)", "top_logprobs"),
      value(R"("logprobs":2)", "logprobs"),
      value(R"("min_tokens":6,"max_tokens":5)", "min_tokens"),
      value(R"("min_tokens":-1)", "min_tokens"),
      value(R"("stream":"yes")", "stream"),
      value(R"("stream_options":{"include_usage":true})", "stream_options"),
      value(R"("stream":true,"stream_options":{"include_usage":1})",
            "stream_options.include_usage"),
      value(R"("model":1)", "model"),
      value(R"("cache_salt":"")", "cache_salt"),
      value(R"("service_tier":"gold")", "service_tier"),
  };
  for (const Refused& row : rows) expect_refused(Api::Chat, row);
}

// Whatever is sent, the sentence names the field and a limit that the value breaks.
TEST(ChatRequest, IntegersOfAllSizesAreReadOrRefusedByTheirLimit) {
  struct Field {
    const char* name;
    std::int64_t smallest;
    std::int64_t largest;
    const char* also = "";  // without which it has no meaning
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Field fields[] = {{"max_tokens", 1, kMost},
                          {"max_completion_tokens", 1, kMost},
                          {"n", 1, 8},
                          {"min_tokens", 0, 2'048},
                          {"top_k", -1, kMost},
                          {"seed", kLeast, kMost},
                          {"top_logprobs", 0, 20, R"("logprobs":true,)"}};
  struct Value {
    const char* text;
    std::optional<std::int64_t> number;  // none: no integer of 64 bits with a sign
    bool is_beyond = false;              // one of 64 bits without
  };
  const Value values[] = {{"7", 7},
                          {"0", 0},
                          {"-2", -2},
                          {"2147483648", std::int64_t{1} << 31},
                          {"9007199254740993", (std::int64_t{1} << 53) + 1},
                          {"9223372036854775807", kMost},
                          {"9223372036854775808", {}, true},
                          {"18446744073709551615", {}, true},
                          {"-9223372036854775808", kLeast},
                          {"1e30", {}},
                          {"1.5", {}},
                          {"7.0", {}},
                          {"\"5\"", {}},
                          {"true", {}}};
  for (const Field& field : fields) {
    for (const Value& value : values) {
      const std::string body =
          chat(field.also + ('"' + std::string(field.name) + "\":" + value.text));
      const auto request = parse(Api::Chat, body);
      const bool is_good = value.number && *value.number >= field.smallest &&
                           *value.number <= field.largest;
      ASSERT_EQ(request.has_value(), is_good) << body;
      if (is_good) continue;
      const std::string least = std::to_string(field.smallest);
      const bool says_least =
          field.largest == kMost && field.smallest != kLeast && !value.is_beyond;
      EXPECT_EQ(request.error().message,
                field.name + std::string(" must be an integer ") +
                    (says_least ? "of at least " + least + "."
                                : "from " + least + " to " + std::to_string(field.largest) + "."))
          << body;
      EXPECT_EQ(request.error().code, ApiCode::InvalidValue) << body;
      EXPECT_EQ(request.error().param, field.name) << body;
    }
  }
  // More than 64 bits are no number at all.
  for (const char* number : {"18446744073709551616", "-9223372036854775809"}) {
    const auto request = parse(Api::Chat, chat(R"("max_tokens":)" + std::string(number)));
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, ApiCode::InvalidJson);
    EXPECT_EQ(request.error().message,
              "A number is malformed, not finite or an integer of more than 64 bits.");
  }
}

// The engine asserts what the parser promises, so a number that only vanishes as a float ended the
// server.
TEST(ChatRequest, ANumberAboveZeroIsStillAboveZeroAsAFloat) {
  for (const std::string number : {"1e-46", "1e-60", "1e-300", "5e-324"}) {
    const auto request = parse(
        Api::Chat, chat(R"("top_p":)" + number + R"(,"repetition_penalty":)" + number));
    ASSERT_TRUE(request) << number;
    EXPECT_GT(request->sampling.top_p, 0.0F) << number;
    EXPECT_GT(request->sampling.repetition_penalty, 0.0F) << number;
  }
}

TEST(ChatRequest, MessagesAreCheckedToTheInnermostField) {
  const Refused rows[] = {
      {"{}", ApiCode::MissingRequiredParameter, "messages"},
      {R"({"messages":null})", ApiCode::MissingRequiredParameter, "messages"},
      {R"({"messages":[]})", ApiCode::InvalidValue, "messages"},
      {R"({"messages":"hi"})", ApiCode::InvalidValue, "messages"},
      {R"({"messages":["hi"]})", ApiCode::InvalidValue, "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", ApiCode::MissingRequiredParameter,
       "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", ApiCode::MissingRequiredParameter,
       "messages[0].content"},
      {R"({"messages":[{"role":"user","content":null}]})", ApiCode::MissingRequiredParameter,
       "messages[0].content"},
      {R"({"messages":[{"role":"robot","content":"x"}]})", ApiCode::InvalidValue,
       "messages[0].role"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":7}]})",
       ApiCode::InvalidValue, "messages[1].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       ApiCode::UnsupportedParameter, "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[]}]})", ApiCode::InvalidValue,
       "messages[0].content"},
      {R"({"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"1"}]}]})",
       ApiCode::UnsupportedParameter, "messages[0].tool_calls"},
      {R"({"messages":[{"role":"tool","content":"x"}]})", ApiCode::UnsupportedParameter,
       "messages[0].role"},
  };
  for (const Refused& row : rows) expect_refused(Api::Chat, row);
}

TEST(ChatRequest, FieldsOfLaterVersionsAreRefusedByNameUnlessNeutral) {
  const std::string refused[] = {
      R"("tools":[{"type":"function"}])", R"("tool_choice":"auto")",
      R"("response_format":{"type":"json_object"})", R"("structured_outputs":{"json":{}})",
      R"("echo":true)", R"("prompt_logprobs":1)", R"("best_of":2)",
      R"("chat_template":"x")", R"("reasoning_effort":"high")", R"("bad_words":["x"])",
      R"("allowed_token_ids":[1])", R"("use_beam_search":true)", R"("priority":1)",
      R"("guided_json":{})", R"("documents":[{}])", R"("modalities":["audio"])",
      R"("truncate_prompt_tokens":5)", R"("continue_final_message":true)",
  };
  for (const std::string& field : refused) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    expect_refused(Api::Chat, {chat(field), ApiCode::UnsupportedParameter, name});
    EXPECT_TRUE(parse(Api::Chat, chat('"' + name + "\":null"))) << name;
  }
}

TEST(ChatRequest, UnknownNamesAreAcceptedAndListedUpToALimit) {
  const auto one = parse(Api::Chat, chat(R"("temprature":1)"));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->unknown_fields, (std::vector<std::string>{"temprature"}));
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += (i > 0 ? "," : "") + ('"' + ("x" + std::to_string(i)) + "\":1");
  }
  const auto request = parse(Api::Chat, chat(many));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->unknown_fields.size(), kMaxUnknownFields);
}

TEST(ChatRequest, SeedMinusOneMeansNone) {
  EXPECT_FALSE(parse(Api::Chat, chat(R"("seed":-1)"))->has_seed);
  EXPECT_TRUE(parse(Api::Chat, chat(R"("seed":0)"))->has_seed);
}

TEST(ChatRequest, TextOverTheByteLimitIsRefusedBeforeTokenizing) {
  RequestParser parser{JsonLimits{.max_prompt_bytes = 100}};
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + std::string(101, 'x') + R"("}]})";
  const auto parsed = parser.parse(Api::Chat, body, kFacts);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ApiCode::ContextLengthExceeded);
  EXPECT_EQ(parsed.error().param, "messages");
}

TEST(CompletionRequest, PromptIsTextOrIdsOrAListOfEither) {
  const auto one = parse(Api::Completions, completion(""));
  ASSERT_TRUE(one);
  ASSERT_EQ(one->prompts.size(), 1U);
  EXPECT_EQ(std::get<std::string>(one->prompts[0]), "hi");

  const auto ids = parse(Api::Completions, R"({"prompt":[1,2,3]})");
  ASSERT_TRUE(ids);
  ASSERT_EQ(ids->prompts.size(), 1U);
  EXPECT_EQ(std::get<1>(ids->prompts[0]), (std::vector<engine::TokenId>{1, 2, 3}));

  const auto mixed = parse(Api::Completions, R"({"prompt":["a",[5],"b"]})");
  ASSERT_TRUE(mixed);
  ASSERT_EQ(mixed->prompts.size(), 3U);
  EXPECT_EQ(std::get<1>(mixed->prompts[1]), (std::vector<engine::TokenId>{5}));
}

TEST(CompletionRequest, BadPromptsAreNamed) {
  const Refused rows[] = {
      {"{}", ApiCode::MissingRequiredParameter, "prompt"},
      {R"({"prompt":""})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[[]]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[1,"a"]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":["a",1]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[1000]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[-1]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":[1.5]})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":7})", ApiCode::InvalidValue, "prompt"},
      {R"({"prompt":["a","b","c","d","e"],"n":8})", ApiCode::InvalidValue, "n"},
      {R"({"prompt":"a","suffix":"b"})", ApiCode::UnsupportedParameter, "suffix"},
      {R"({"prompt":"a","logprobs":21})", ApiCode::InvalidValue, "logprobs"},
      {R"({"prompt":"a","logprobs":true})", ApiCode::InvalidValue, "logprobs"},
      {R"({"prompt":"a","min_tokens":17})", ApiCode::InvalidValue, "min_tokens"},  // of 16
  };
  for (const Refused& row : rows) expect_refused(Api::Completions, row);
}

TEST(CompletionRequest, LogprobsIsACount) {
  const auto request = parse(Api::Completions, completion(R"("logprobs":0)"));
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->logprobs);
  EXPECT_EQ(request->sampling.top_logprobs, 0U);
}

TEST(TokenizeRequest, TakesAPromptOrMessages) {
  RequestParser parser{JsonLimits{}};
  const auto text = parser.parse_tokenize(R"({"prompt":"a","return_token_strs":true})");
  ASSERT_TRUE(text);
  EXPECT_EQ(std::get<std::string>(text->input), "a");
  EXPECT_TRUE(text->return_token_strs);
  const auto messages =
      parser.parse_tokenize(R"({"messages":[{"role":"user","content":"a"}]})");
  ASSERT_TRUE(messages);
  EXPECT_EQ(std::get<1>(messages->input).size(), 1U);
  EXPECT_FALSE(parser.parse_tokenize("{}"));
}

TEST(DetokenizeRequest, IdsMustBeInTheVocabulary) {
  RequestParser parser{JsonLimits{}};
  const auto request = parser.parse_detokenize(R"({"tokens":[1,999]})", kFacts);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tokens, (std::vector<engine::TokenId>{1, 999}));
  EXPECT_FALSE(parser.parse_detokenize(R"({"tokens":[1000]})", kFacts));
  EXPECT_FALSE(parser.parse_detokenize("{}", kFacts));
}

// 4 MiB of ids gave an answer of 45 MB.
TEST(DetokenizeRequest, NoMoreIdsThanTheContextHolds) {
  RequestParser parser{JsonLimits{}};
  const auto body = [](std::size_t count) {
    std::string ids = "1";
    for (std::size_t i = 1; i < count; ++i) ids += ",1";
    return R"({"tokens":[)" + ids + "]}";
  };
  EXPECT_TRUE(parser.parse_detokenize(body(kFacts.max_model_len), kFacts));
  const auto refused = parser.parse_detokenize(body(kFacts.max_model_len + 1), kFacts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_string(refused.error().code), "invalid_value");
  EXPECT_EQ(refused.error().param, "tokens");
}

// Whatever bytes arrive, the answer is a request or an error.
TEST(RequestParser, SurvivesEveryTruncationAndManyBitFlips) {
  const std::string body = chat(
      R"("stop":["a"],"logit_bias":{"5":1},"stream":true,"stream_options":{"include_usage":true})");
  RequestParser parser{JsonLimits{}};
  std::size_t accepted = 0;
  for (std::size_t length = 0; length < body.size(); ++length) {
    accepted += parser.parse(Api::Chat, body.substr(0, length), kFacts).has_value();
  }
  EXPECT_EQ(accepted, 0U) << "no prefix of the body is a body";
  for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string flipped = body;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = parser.parse(Api::Chat, flipped, kFacts);
    if (!parsed) {
      EXPECT_EQ(http_status(parsed.error().code), 400);
    }
  }
}

}  // namespace
}  // namespace turnstile::gateway
