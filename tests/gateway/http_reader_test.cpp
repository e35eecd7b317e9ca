#include "gateway/http/http_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/http/framing.h"

namespace turnstile::gateway {
namespace {

struct Outcome {
  bool done = false;
  std::optional<ApiCode> refused;
  std::size_t consumed = 0;
  std::string body;
  RequestHead head;
};

// Gives the reader `bytes` in two pieces, the second from `cut` on, as a socket would.
Outcome read_in_two(const std::string& bytes, std::size_t cut,
                    const LimitsConfig& limits = LimitsConfig{}) {
  HttpReader reader(limits);
  Outcome outcome;
  std::size_t begin = 0;
  bool in_body = false;
  for (const std::size_t end : {cut, bytes.size()}) {
    for (;;) {
      const std::string_view piece = std::string_view(bytes).substr(begin, end - begin);
      const HttpReader::Step step = in_body ? reader.read_body(piece) : reader.read_head(piece);
      begin += step.consumed;
      if (step.refused) {
        outcome.refused = step.refused->code;
        return outcome;
      }
      if (step.done && !in_body && reader.head().has_body()) {
        in_body = true;
        continue;
      }
      if (step.done) {
        outcome.done = true;
        outcome.consumed = begin;
        outcome.head = reader.head();
        if (in_body) outcome.body = reader.body();
        return outcome;
      }
      break;
    }
  }
  return outcome;
}

// The outcome is the same wherever the bytes are cut.
void expect_outcome(const std::string& bytes, std::optional<ApiCode> refused, bool done,
                    const std::string& body = {}) {
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Outcome outcome = read_in_two(bytes, cut);
    ASSERT_EQ(outcome.refused.has_value(), refused.has_value()) << bytes << "\ncut at " << cut;
    if (refused) {
      ASSERT_EQ(to_string(*outcome.refused), to_string(*refused)) << bytes << "\ncut at " << cut;
    }
    ASSERT_EQ(outcome.done, done) << bytes << "\ncut at " << cut;
    ASSERT_EQ(outcome.body, body) << bytes << "\ncut at " << cut;
  }
}

TEST(HttpReader, ReadsAWholeRequestWhereverItIsCut) {
  expect_outcome("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", std::nullopt, true);
  expect_outcome("GET / HTTP/1.0\r\n\r\n", std::nullopt, true);
  expect_outcome("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", std::nullopt, true,
                 "hello");
  expect_outcome(
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
      std::nullopt, true, "hello");
  expect_outcome("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell", std::nullopt,
                 false);
}

TEST(HttpReader, KeepsTheFieldsThatTheGatewayActsOn) {
  const Outcome outcome = read_in_two(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n"
      "Content-Type: application/json\r\nX-Turnstile-Class: batch\r\nX-Request-Id: r.1\r\n"
      "Content-Encoding: gzip\r\n"
      "Expect: 100-continue\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
      10);
  ASSERT_TRUE(outcome.done);
  EXPECT_EQ(outcome.head.method, Method::Post);
  EXPECT_EQ(outcome.head.target, "/v1/chat/completions");
  EXPECT_EQ(outcome.head.host, "a");
  EXPECT_FALSE(outcome.head.has_origin);
  EXPECT_EQ(outcome.head.authorization, "Bearer k");
  EXPECT_EQ(outcome.head.content_type, "application/json");
  EXPECT_EQ(outcome.head.content_encoding, "gzip");
  EXPECT_EQ(outcome.head.service_class, "batch");
  EXPECT_EQ(outcome.head.client_request_id, "r.1");
  EXPECT_TRUE(outcome.head.expects_continue);
  EXPECT_FALSE(outcome.head.keep_alive);
}

// What two parties could read differently is refused before it reaches the parser.
TEST(HttpReader, RefusesSmugglingGradeFraming) {
  const std::string post = "POST /x HTTP/1.1\r\nHost: a\r\n";
  const std::string rows[] = {
      post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
      post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
      post + "Content-Length: +5\r\n\r\n",
      post + "Content-Length: 5,5\r\n\r\n",
      post + "Content-Length: 0x5\r\n\r\n",
      post + "Content-Length:\r\n\r\n",
      post + "Transfer-Encoding: gzip, chunked\r\n\r\n",
      post + "Transfer-Encoding: chunked, identity\r\n\r\n",
      post + "Transfer-Encoding: xchunked\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
      post + "Content-Length : 5\r\n\r\n",
      post + " folded: 1\r\n\r\n",
      "POST /x HTTP/1.1\nHost: a\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: a\n\r\n",
      "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET /x HTTP/1.1\r\n\r\n",
      "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
      post + std::string("A: b\0c\r\n\r\n", 10),
      post + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
  };
  for (const std::string& row : rows) expect_outcome(row, ApiCode::BadRequest, false);
}

TEST(HttpReader, RefusesOtherVersionsAndExpectations) {
  expect_outcome("GET / HTTP/2.0\r\nHost: a\r\n\r\n", ApiCode::HttpVersion, false);
  expect_outcome("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", ApiCode::ExpectationFailed,
                 false);
}

TEST(HttpReader, OnlyHttp11ClientsAreToldToContinue) {
  const std::string fields = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n";
  EXPECT_TRUE(read_in_two("POST /x HTTP/1.1\r\n" + fields, 0).head.expects_continue);
  EXPECT_FALSE(read_in_two("POST /x HTTP/1.0\r\n" + fields, 0).head.expects_continue);
}

// The parser waits for the end of the line, the socket for room: nothing would move until the time
// for the body is over.
TEST(HttpReader, AFullBufferInsideALineOfTheFramingIsRefused) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string rest(LimitsConfig{}.read_buffer_bytes, 'y');
  for (const std::string begin : {"3;", "3\r\nhel\r\n0\r\nX: "}) {
    EXPECT_EQ(read_in_two(head + begin + rest, 0).refused, ApiCode::BadRequest) << begin;
    EXPECT_EQ(read_in_two(head + begin + rest.substr(0, 1'000), 0).refused, std::nullopt) << begin;
  }
}

// And refused at once: the parser itself waits for the carriage return.
TEST(HttpReader, ALineFeedAloneInTheFramingOfChunksIsRefused) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string rows[] = {
      "3\n",
      "3\nhel",
      "3\nhel\r\n0\r\n\r\n",
      "\n3\r\n",
      "3\r\nhel\n",
      "3\r\nhel\n0\r\n\r\n",
      "3\r\nhel\r\n2\nlo",
      "3\r\nhel\r\n0\n",
      "3\r\nhel\r\n0\n\n",
      "3\r\nhel\r\n0\r\n\n",
      "3;a=b\n",
      "3\r\nhel\r\n0\r\nTrailer: x\n",
  };
  for (const std::string& row : rows) expect_outcome(head + row, ApiCode::BadRequest, false);
  // Line feeds of the text are the text's.
  expect_outcome(head + "3\r\n\n\r\n\r\n1\r\n\n\r\n0\r\n\r\n", std::nullopt, true, "\n\r\n\n");
  expect_outcome("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\n\n\n", std::nullopt,
                 false);
}

TEST(HttpReader, ARequestLineWithoutEndIsAnUriThatIsTooLong) {
  EXPECT_EQ(read_in_two("GET /" + std::string(60'000, 'a'), 0).refused, ApiCode::UriTooLong);
}

TEST(HttpReader, RefusesChunkExtensionsAndTrailers) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  expect_outcome(head + "3;a=b\r\nhel\r\n0\r\n\r\n", ApiCode::BadRequest, false);
  expect_outcome(head + "3\r\nhel\r\n0\r\nTrailer: x\r\n\r\n", ApiCode::BadRequest, false);
}

TEST(HttpReader, LimitsAreExact) {
  LimitsConfig limits;
  limits.max_body_bytes = 4;
  limits.max_target_bytes = 5;
  limits.max_header_count = 2;
  const auto refused = [&](const std::string& bytes) {
    return read_in_two(bytes, 0, limits).refused;
  };
  const std::string post = "POST /x HTTP/1.1\r\nHost: a\r\n";
  EXPECT_FALSE(refused(post + "Content-Length: 4\r\n\r\nbody"));
  EXPECT_EQ(refused(post + "Content-Length: 5\r\n\r\nhello"), ApiCode::BodyTooLarge);
  EXPECT_EQ(refused(post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            ApiCode::BodyTooLarge);
  EXPECT_FALSE(refused("GET /1234 HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(refused("GET /12345 HTTP/1.1\r\nHost: a\r\n\r\n"), ApiCode::UriTooLong);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n"),
            ApiCode::HeadersTooLarge);
}

TEST(HttpReader, AHeaderBlockThatNeverEndsIsRefusedAtItsLimit) {
  const LimitsConfig limits;
  HttpReader reader(limits);
  const std::string endless =
      "GET / HTTP/1.1\r\nHost: a\r\nA: " + std::string(limits.max_header_bytes + 1, 'x');
  const HttpReader::Step step = reader.read_head(endless);
  ASSERT_TRUE(step.refused);
  EXPECT_EQ(step.refused->code, ApiCode::HeadersTooLarge);
}

TEST(HttpReader, TwoRequestsOfOneConnectionAreReadOneAfterTheOther) {
  const LimitsConfig limits;
  HttpReader reader(limits);
  const std::string first = "POST /a HTTP/1.1\r\nHost: a\r\norigin: null\r\n"
                            "Content-Length: 2\r\n\r\nhi";
  const std::string both = first + "GET /b HTTP/1.0\r\n\r\n";
  HttpReader::Step step = reader.read_head(both);
  ASSERT_TRUE(step.done);
  EXPECT_TRUE(reader.head().has_origin);
  std::size_t begin = step.consumed;
  step = reader.read_body(std::string_view(both).substr(begin));
  ASSERT_TRUE(step.done);
  begin += step.consumed;
  EXPECT_EQ(begin, first.size()) << "nothing of the second request belongs to the first";
  EXPECT_EQ(reader.body(), "hi");
  reader.next_request();
  step = reader.read_head(std::string_view(both).substr(begin));
  ASSERT_TRUE(step.done);
  EXPECT_EQ(reader.head().target, "/b");
  EXPECT_EQ(reader.head().host, "");
  EXPECT_FALSE(reader.head().has_origin);
  EXPECT_FALSE(reader.head().has_body());
}

TEST(HeaderGuard, FindsTheEndOfTheHeaderWhereverItIsCut) {
  const LimitsConfig limits;
  const std::string block = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (std::size_t length = 0; length <= block.size(); ++length) {
    HeaderGuard guard(limits);
    const auto early = guard.inspect(std::string_view(block).substr(0, length));
    EXPECT_FALSE(early.refused);
    EXPECT_EQ(early.header_bytes, length == block.size() ? block.size() : 0U);
    const auto whole = guard.inspect(block + "rest");
    EXPECT_EQ(length == block.size() ? block.size() : whole.header_bytes, block.size());
  }
}

}  // namespace
}  // namespace turnstile::gateway
