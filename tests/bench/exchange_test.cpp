#include "bench/load/exchange.h"

#include <gtest/gtest.h>

#include <string>

namespace turnstile::load {
namespace {

using namespace std::chrono_literals;

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& bytes) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

std::string event(const std::string& json) { return chunk("data: " + json + "\n\n"); }

std::string text_event(const std::string& text) {
  return event(R"({"choices":[{"delta":{"content":")" + text + R"("}}]})");
}

const std::string kRole = event(R"({"choices":[{"delta":{"role":"assistant"}}]})");
const std::string kFinish = event(R"({"choices":[{"delta":{},"finish_reason":"length"}]})");
const std::string kDone = event("[DONE]") + "0\r\n\r\n";

class ExchangeTest : public testing::Test {
 protected:
  void start() {
    Record record;
    record.scheduled = 100ms;
    record.sent = 110ms;
    exchange_.start(record);
  }
  AnswerReader reader_;
  Exchange exchange_{reader_};
};

// Three tokens at 200, 230 and 270 ms; a role chunk 90 ms earlier must not stop the clock.
TEST_F(ExchangeTest, FirstTokenIsTheFirstTextAndTpotCountsTheGapsBehindIt) {
  start();
  exchange_.on_bytes(110ms, kStreamHead + kRole);
  exchange_.on_bytes(200ms, text_event("a"));
  exchange_.on_bytes(230ms, text_event("b"));
  exchange_.on_bytes(270ms, text_event("c"));
  exchange_.on_bytes(271ms, kFinish + kDone);
  ASSERT_TRUE(exchange_.finished());
  const Record& record = exchange_.record();
  EXPECT_EQ(record.outcome, Outcome::Completed);
  EXPECT_EQ(record.headers, Time(110ms));
  EXPECT_EQ(record.first_token, Time(200ms));
  EXPECT_EQ(record.last_token, Time(270ms));
  EXPECT_EQ(record.ended, Time(271ms));
  EXPECT_EQ(record.gaps_ms, (std::vector<float>{30, 40}));
  EXPECT_DOUBLE_EQ(*record.tpot_ms(), 35);
  EXPECT_TRUE(exchange_.keeps_connection());
}

// Two tokens in one event: usage says four tokens in two events, so a token takes half the time.
TEST_F(ExchangeTest, TpotTakesTheTokensFromUsageAndNotFromEvents) {
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("ab"));
  exchange_.on_bytes(230ms, text_event("cd"));
  exchange_.on_bytes(230ms, kFinish + event(R"({"choices":[],"usage":{"prompt_tokens":9,)"
                                            R"("completion_tokens":4}})") + kDone);
  EXPECT_DOUBLE_EQ(*exchange_.record().tpot_ms(), 10);
  EXPECT_EQ(exchange_.record().text_events, 2u);
}

TEST_F(ExchangeTest, OneTokenHasNoTpot) {
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("a") + kFinish + kDone);
  EXPECT_FALSE(exchange_.record().tpot_ms());
}

TEST_F(ExchangeTest, ARefusalIsAnAnswerWithItsCode) {
  start();
  const std::string body =
      R"({"error":{"message":"m","type":"rate_limit_error","code":"queue_full"}})";
  exchange_.on_bytes(112ms, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(exchange_.finished());
  EXPECT_EQ(exchange_.record().outcome, Outcome::Rejected);
  EXPECT_EQ(exchange_.record().status, 429);
  EXPECT_EQ(exchange_.record().code, "queue_full");
  EXPECT_TRUE(exchange_.keeps_connection());
}

TEST_F(ExchangeTest, OtherStatusesAreErrors) {
  start();
  exchange_.on_bytes(112ms, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(exchange_.record().outcome, Outcome::HttpError);
}

TEST_F(ExchangeTest, AnErrorInsideAStreamIsAStreamError) {
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("a") +
                                event(R"({"error":{"code":"decode_stall"}})") + kDone);
  EXPECT_EQ(exchange_.record().outcome, Outcome::StreamError);
  EXPECT_EQ(exchange_.record().code, "decode_stall");
}

TEST_F(ExchangeTest, AStreamWithoutItsEndIsTruncated) {
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("a"));
  exchange_.on_close(300ms);
  ASSERT_TRUE(exchange_.finished());
  EXPECT_EQ(exchange_.record().outcome, Outcome::Truncated);
  EXPECT_FALSE(exchange_.keeps_connection());
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("a") + "0\r\n\r\n");
  EXPECT_EQ(exchange_.record().outcome, Outcome::Truncated);
}

TEST_F(ExchangeTest, AnAnswerInOnePieceIsReadWhole) {
  start();
  const std::string body = R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],)"
                           R"("usage":{"prompt_tokens":3,"completion_tokens":2}})";
  exchange_.on_bytes(300ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                            "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(exchange_.record().outcome, Outcome::Completed);
  EXPECT_EQ(exchange_.record().completion_tokens, 2u);
}

TEST_F(ExchangeTest, EqualTextsHaveEqualHashesHoweverTheyWereCut) {
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("ab") + text_event("c") + kFinish + kDone);
  const std::uint64_t hash = exchange_.record().text_hash;
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("a") + text_event("bc") + kFinish + kDone);
  EXPECT_EQ(exchange_.record().text_hash, hash);
  start();
  exchange_.on_bytes(200ms, kStreamHead + text_event("acb") + kFinish + kDone);
  EXPECT_NE(exchange_.record().text_hash, hash);
}

TEST_F(ExchangeTest, IsUntouchedUntilTheFirstByte) {
  start();
  EXPECT_TRUE(exchange_.is_untouched());
  exchange_.on_bytes(111ms, "H");
  EXPECT_FALSE(exchange_.is_untouched());
  exchange_.on_timeout(500ms);
  EXPECT_EQ(exchange_.record().outcome, Outcome::Timeout);
}

}  // namespace
}  // namespace turnstile::load
