#include "bench/load/http_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace turnstile::load {
namespace {

enum class End { Done, Failed, Open };

struct Case {
  const char* name;
  std::string bytes;
  bool close_after;
  End end;
  int status;
  std::string body;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> table{
      {"Length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, End::Done, 200,
       "hello"},
      {"LengthInAnyCase", "HTTP/1.1 429 No\r\ncOnTeNt-LeNgTh:2\r\n\r\nno", false, End::Done, 429,
       "no"},
      {"LengthZero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, End::Done, 200, ""},
      {"LengthCutShort", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", true, End::Failed, 200,
       "hel"},
      {"LengthNotYetThere", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", false, End::Open,
       200, "hel"},
      {"Chunked",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;x=y\r\n world-wide"
       "\r\n0\r\n\r\n",
       false, End::Done, 200, "hello world-wide"},
      {"ChunkedWithTrailer",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", false,
       End::Done, 200, "a"},
      {"ChunkedCutShort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true,
       End::Failed, 200, "hel"},
      {"ChunkSizeThatIsNone", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false,
       End::Failed, 200, ""},
      {"ChunkLongerThanItSays",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", false,
       End::Failed, 200, "a"},
      {"UntilClose", "HTTP/1.1 200 OK\r\n\r\nhello", true, End::Done, 200, "hello"},
      {"InterimResponseIsSkipped",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false,
       End::Done, 200, "a"},
      {"BytesAfterTheEnd", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", false, End::Failed,
       200, "a"},
      {"NotHttp", "SSH-2.0-x\r\n\r\n", false, End::Failed, 0, ""},
      {"ClosedAtOnce", "", true, End::Failed, 0, ""},
  };
  return table;
}

TEST(HttpReader, CutAtAnyByteGivesTheSameAnswer) {
  for (const Case& c : cases()) {
    for (std::size_t cut = 0; cut <= c.bytes.size(); ++cut) {
      HttpReader reader;
      std::string body;
      reader.feed(std::string_view(c.bytes).substr(0, cut), body);
      reader.feed(std::string_view(c.bytes).substr(cut), body);
      if (c.close_after) reader.on_close();
      const End end = reader.done() ? End::Done : reader.failed() ? End::Failed : End::Open;
      ASSERT_EQ(end, c.end) << c.name << " cut at " << cut;
      ASSERT_EQ(reader.status(), c.status) << c.name << " cut at " << cut;
      ASSERT_EQ(body, c.body) << c.name << " cut at " << cut;
    }
  }
}

TEST(HttpReader, ReadsTheHeadersThatALoadClientNeeds) {
  HttpReader reader;
  std::string body;
  reader.feed("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 17\r\nConnection: close\r\n"
              "Content-Type: text/event-stream; charset=utf-8\r\nContent-Length: 0\r\n\r\n", body);
  EXPECT_EQ(reader.retry_after_s(), 17);
  EXPECT_FALSE(reader.keeps_connection());
  EXPECT_TRUE(reader.is_event_stream());
}

TEST(HttpReader, HeadWithoutEndFailsAtItsLimit) {
  HttpReader reader;
  std::string body;
  reader.feed("HTTP/1.1 200 OK\r\nX: " + std::string(HttpReader::kMaxHeadBytes, 'a'), body);
  EXPECT_TRUE(reader.failed());
}

}  // namespace
}  // namespace turnstile::load
