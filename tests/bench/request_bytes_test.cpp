#include "bench/load/request_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace turnstile::load {
namespace {

Options options() {
  Options o;
  o.host = "127.0.0.1";
  o.port = "8000";
  o.prompt_tokens = 8;
  return o;
}

std::string body_of(const std::string& request) {
  return request.substr(request.find("\r\n\r\n") + 4);
}

std::string prompt_of(const std::string& request) {
  const std::string body = body_of(request);
  const std::size_t at = body.find("\"prompt\":[");
  return body.substr(at, body.find(']', at) - at);
}

TEST(RequestBytes, EqualNumbersEqualBytesOtherNumbersOtherPrompts) {
  EXPECT_EQ(request_bytes(options(), 3), request_bytes(options(), 3));
  EXPECT_NE(prompt_of(request_bytes(options(), 3)), prompt_of(request_bytes(options(), 4)));
}

TEST(RequestBytes, PromptHasTheTokensAskedFor) {
  const std::string prompt = prompt_of(request_bytes(options(), 0));
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), ','), 7);
}

TEST(RequestBytes, SharedTokensAreEqualAcrossRequestsAndTheRestIsNot) {
  Options o = options();
  o.shared_prompt_tokens = 8;
  EXPECT_EQ(prompt_of(request_bytes(o, 1)), prompt_of(request_bytes(o, 2)));
  o.shared_prompt_tokens = 4;
  const std::string a = prompt_of(request_bytes(o, 1));
  const std::string b = prompt_of(request_bytes(o, 2));
  std::size_t fourth = 0;
  for (int i = 0; i < 4; ++i) fourth = a.find(',', fourth) + 1;
  EXPECT_EQ(a.substr(0, fourth), b.substr(0, fourth));
  EXPECT_NE(a, b);
}

TEST(RequestBytes, LengthHeaderIsTheBodysLength) {
  const std::string request = request_bytes(options(), 0);
  EXPECT_NE(request.find("Content-Length: " + std::to_string(body_of(request).size()) + "\r\n"),
            std::string::npos);
}

TEST(RequestBytes, FurtherHeadersAndFieldsAreSentAsTold) {
  Options o = options();
  o.headers = {"x-smg-priority: bulk", "x-other: 1"};
  o.priority = 3;
  o.choices = 4;
  o.words = true;
  const std::string request = request_bytes(o, 0);
  EXPECT_NE(request.find("\r\nx-smg-priority: bulk\r\nx-other: 1\r\n\r\n{"), std::string::npos);
  EXPECT_NE(request.find("\"priority\":3,\"n\":4,"), std::string::npos);
  EXPECT_EQ(request.find("\"prompt\":["), std::string::npos);
  EXPECT_NE(request_bytes(o, 0), request_bytes(o, 1));
}

TEST(RequestBytes, EachApiHasItsRouteAndFields) {
  Options o = options();
  o.ignore_eos = true;
  o.key = "gw_x";
  const std::string completions = request_bytes(o, 0);
  EXPECT_TRUE(completions.starts_with("POST /v1/completions HTTP/1.1\r\n"));
  EXPECT_NE(completions.find("Authorization: Bearer gw_x\r\n"), std::string::npos);
  EXPECT_NE(completions.find("\"max_tokens\":96"), std::string::npos);
  EXPECT_NE(completions.find("\"include_usage\":true"), std::string::npos);
  EXPECT_NE(completions.find("\"ignore_eos\":true"), std::string::npos);
  o.api = Api::Chat;
  o.prompt_text = "say \"hi\"\n";
  const std::string chat = request_bytes(o, 0);
  EXPECT_TRUE(chat.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_NE(chat.find(R"("content":"say \"hi\"\u000a")"), std::string::npos);
  o.api = Api::Llama;
  o.prompt_text.reset();
  const std::string llama = request_bytes(o, 0);
  EXPECT_TRUE(llama.starts_with("POST /completion HTTP/1.1\r\n"));
  EXPECT_NE(llama.find("\"n_predict\":96"), std::string::npos);
  EXPECT_NE(llama.find("\"cache_prompt\":false"), std::string::npos);
}

}  // namespace
}  // namespace turnstile::load
