#include "bench/load/sse_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace turnstile::load {
namespace {

struct StreamCase {
  const char* name;
  std::string bytes;
  std::vector<std::string> events;
};

const std::vector<StreamCase>& stream_cases() {
  static const std::vector<StreamCase> table{
      {"OneEvent", "data: {\"a\":1}\n\n", {"{\"a\":1}"}},
      {"NoSpaceAfterColon", "data:x\n\n", {"x"}},
      {"OnlyOneSpaceIsTaken", "data:  x\n\n", {" x"}},
      {"CarriageReturnLineFeed", "data: x\r\n\r\ndata: y\r\n\r\n", {"x", "y"}},
      {"CarriageReturnAlone", "data: x\r\rdata: y\r\r", {"x", "y"}},
      {"DataLinesAreJoined", "data: a\ndata: b\n\n", {"a\nb"}},
      {"CommentsAreIgnored", ": wait\n\ndata: x\n: more\n\n", {"x"}},
      {"OtherFieldsAreIgnored", "event: e\nid: 7\nretry: 1\ndata: x\n\n", {"x"}},
      {"FieldThatOnlyBeginsLikeData", "database: x\n\n", {}},
      {"EmptyDataIsAnEvent", "data\n\n", {""}},
      {"EventWithoutItsEmptyLineIsNone", "data: x\n", {}},
      {"DoneMark", "data: x\n\ndata: [DONE]\n\n", {"x", "[DONE]"}},
      {"MultiByteCharacters", "data: h\xc3\xa9\xf0\x9f\x98\x80\n\n", {"h\xc3\xa9\xf0\x9f\x98\x80"}},
  };
  return table;
}

TEST(SseReader, CutAtAnyTwoBytesGivesTheSameEvents) {
  for (const StreamCase& c : stream_cases()) {
    for (std::size_t first = 0; first <= c.bytes.size(); ++first) {
      for (std::size_t second = first; second <= c.bytes.size(); ++second) {
        SseReader reader;
        std::vector<std::string> events;
        const auto collect = [&](std::string_view data) { events.emplace_back(data); };
        const std::string_view bytes = c.bytes;
        reader.feed(bytes.substr(0, first), collect);
        reader.feed(bytes.substr(first, second - first), collect);
        reader.feed(bytes.substr(second), collect);
        ASSERT_EQ(events, c.events) << c.name << " cut at " << first << " and " << second;
      }
    }
  }
}

TEST(SseReader, ResetForgetsAHalfReadEvent) {
  SseReader reader;
  std::vector<std::string> events;
  const auto collect = [&](std::string_view data) { events.emplace_back(data); };
  reader.feed("data: old\nda", collect);
  reader.reset();
  reader.feed("data: new\n\n", collect);
  EXPECT_EQ(events, std::vector<std::string>{"new"});
}

}  // namespace
}  // namespace turnstile::load
