#include "gateway/api/api_error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

constexpr int kCodeCount = static_cast<int>(ApiCode::EngineFault) + 1;

std::map<std::string, std::string> headers_of(const ApiError& error) {
  std::map<std::string, std::string> result;
  std::string lines;
  append_error_lines(lines, error);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = lines.find("\r\n", begin)) != std::string::npos;
       begin = end + 2) {
    const std::size_t colon = lines.find(": ", begin);
    result.emplace(lines.substr(begin, colon - begin), lines.substr(colon + 2, end - colon - 2));
  }
  EXPECT_EQ(begin, lines.size());
  return result;
}

TEST(ApiError, EveryCodeHasItsOwnTextAndAStatusThatMatchesItsType) {
  std::set<std::string_view> texts;
  for (int index = 0; index < kCodeCount; ++index) {
    const auto code = static_cast<ApiCode>(index);
    EXPECT_TRUE(texts.insert(to_string(code)).second) << to_string(code);
    EXPECT_GE(http_status(code), 400);
    EXPECT_LT(http_status(code), 506);
    EXPECT_FALSE(error_type(code).empty());
  }
}

// The table of the interface: status and type by code.
TEST(ApiError, StatusAndTypeFollowTheInterface) {
  struct Row {
    ApiCode code;
    int status;
    std::string_view type;
  };
  const Row rows[] = {
      {ApiCode::InvalidJson, 400, "invalid_request_error"},
      {ApiCode::InputTooLong, 400, "invalid_request_error"},
      {ApiCode::InvalidApiKey, 401, "authentication_error"},
      {ApiCode::KeyExpired, 403, "permission_error"},
      {ApiCode::NotLocal, 403, "permission_error"},
      {ApiCode::ModelNotFound, 404, "not_found_error"},
      {ApiCode::MethodNotAllowed, 405, "invalid_request_error"},
      {ApiCode::BodyTooLarge, 413, "invalid_request_error"},
      {ApiCode::HeadersTooLarge, 431, "invalid_request_error"},
      {ApiCode::BudgetTokens, 429, "rate_limit_error"},
      {ApiCode::QueueDeadline, 429, "rate_limit_error"},
      {ApiCode::ClientGone, 499, "invalid_request_error"},
      {ApiCode::EngineFault, 500, "server_error"},
      {ApiCode::Draining, 503, "server_error"},
      {ApiCode::PrefillTimeout, 504, "timeout_error"},
      {ApiCode::HttpVersion, 505, "invalid_request_error"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(http_status(row.code), row.status) << to_string(row.code);
    EXPECT_EQ(error_type(row.code), row.type) << to_string(row.code);
  }
}

TEST(ApiError, BodyOfAnInvalidRequestHasOpenAiShape) {
  const ApiError error = make_error(ApiCode::InvalidValue, "n must be \"1\".", "n");
  EXPECT_EQ(error_body(error, "req-1"),
            R"({"error":{"message":"n must be \"1\".","type":"invalid_request_error",)"
            R"("param":"n","code":"invalid_value","request_id":"req-1"}})");
}

TEST(ApiError, RefusalNamesMeterScopeLimitAndTheTrueWait) {
  policy::Refusal refusal;
  refusal.code = policy::RefusalCode::BudgetTokens;
  refusal.meter = "tokens_per_minute/team/lab";
  refusal.scope = "team/lab";
  refusal.limit = 60'000;
  refusal.retry_after = 6'411'500us;
  const ApiError error = from_refusal(refusal, {}, "r3-0123abcd");
  const std::string body = error_body(error, "req-1");
  EXPECT_NE(body.find(R"("meter":"tokens_per_minute/team/lab","limit":60000)"), std::string::npos)
      << body;
  EXPECT_NE(body.find(R"("scope":"team/lab")"), std::string::npos);
  EXPECT_NE(body.find(R"("policy_rev":"r3-0123abcd")"), std::string::npos);
  EXPECT_NE(body.find(R"("retry_after_ms":6412)"), std::string::npos);
  const auto headers = headers_of(error);
  EXPECT_EQ(headers.at("Retry-After"), "7");
  EXPECT_EQ(headers.at("retry-after-ms"), "6412");
  EXPECT_EQ(headers.at("x-should-retry"), "true");
  EXPECT_EQ(headers.at("x-admission-code"), "budget_tokens");
}

TEST(ApiError, WaitOverAMinuteIsTrueButNotRetried) {
  ApiError error = make_error(ApiCode::RateRequests, "wait");
  error.retry_after = 60s;
  EXPECT_EQ(headers_of(error).at("x-should-retry"), "true");
  error.retry_after = 60s + 1ns;
  EXPECT_EQ(headers_of(error).at("x-should-retry"), "false");
  EXPECT_EQ(headers_of(error).at("Retry-After"), "61");
}

TEST(ApiError, WithoutAUsefulWaitThereIsNoRetryAfter) {
  const auto headers = headers_of(make_error(ApiCode::BudgetTokens, "the budget is 0"));
  EXPECT_EQ(headers.count("Retry-After"), 0U);
  EXPECT_EQ(headers.count("retry-after-ms"), 0U);
  EXPECT_EQ(headers.at("x-should-retry"), "false");
}

TEST(ApiError, OnlyOverloadAnswersCarryRetryAdvice) {
  EXPECT_TRUE(headers_of(make_error(ApiCode::InvalidJson, "no")).empty());
  ApiError draining = make_error(ApiCode::Draining, "the server is draining");
  draining.retry_after = 5s;
  EXPECT_EQ(headers_of(draining).at("Retry-After"), "5");
}

TEST(ApiError, PolicyFieldsGetTheNameThatTheClientUsed) {
  policy::Refusal refusal;
  refusal.code = policy::RefusalCode::InputTooLong;
  refusal.param = "prompt";
  EXPECT_EQ(from_refusal(refusal, {.prompt = "messages"}, "r1").param, "messages");
  refusal.code = policy::RefusalCode::InvalidValue;
  refusal.param = "max_tokens";
  EXPECT_EQ(from_refusal(refusal, {.max_tokens = "max_completion_tokens"}, "r1").param,
            "max_completion_tokens");
  EXPECT_FALSE(from_refusal(refusal, {}, "r1").refusal) << "an invalid value is no refusal";
}

}  // namespace
}  // namespace turnstile::gateway
