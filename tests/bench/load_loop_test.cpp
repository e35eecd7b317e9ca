#include "bench/load/load_loop.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/bench/scripted_server.h"

namespace turnstile::load {
namespace {

using namespace std::chrono_literals;

const std::string kCompleted =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    "49\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\n"
    "data: [DONE]\n\n\r\n0\r\n\r\n";
const std::string kRefused = "HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\n{}";

LoadPlan plan(std::uint32_t streams, std::uint64_t requests) {
  LoadPlan p;
  p.streams = streams;
  p.requests = requests;
  p.timeout = 10s;
  p.bytes_of = [](std::uint64_t) { return "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"; };
  return p;
}

LoadResult run(const ScriptedServer& server, const LoadPlan& p) {
  const auto address = ServerAddress::resolve("127.0.0.1", server.port());
  LoadLoop loop(*address, p);
  EXPECT_TRUE(loop.is_ready());
  return loop.run();
}

int count(const LoadResult& result, Outcome outcome) {
  int n = 0;
  for (const Record& record : result.records) n += record.outcome == outcome;
  return n;
}

TEST(LoadLoop, ClosedLoopKeepsItsConnectionsAndRecordsEachRequestOnce) {
  const ScriptedServer server([](int) { return kCompleted; });
  const LoadResult result = run(server, plan(4, 100));
  ASSERT_EQ(result.records.size(), 100u);
  EXPECT_EQ(count(result, Outcome::Completed), 100);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(result.records[i].sequence, i);
  EXPECT_EQ(server.request_count(), 100);
  EXPECT_LE(server.connection_count(), 4);
}

TEST(LoadLoop, OpenLoopCountsFromTheScheduleWhenNoStreamIsFree) {
  // One stream and three requests due at once: the second and third wait, and that counts.
  const ScriptedServer server([](int) { return kCompleted; });
  LoadPlan p = plan(1, 3);
  p.schedule = {0ns, 0ns, 0ns};
  const LoadResult result = run(server, p);
  EXPECT_EQ(count(result, Outcome::Completed), 3);
  for (const Record& record : result.records) EXPECT_EQ(record.scheduled, Time(0));
  EXPECT_GE(result.records[2].sent, result.records[1].ended);
  EXPECT_GE(result.records[1].sent, result.records[0].ended);
}

TEST(LoadLoop, OpenLoopSendsNothingBeforeItsTime) {
  const ScriptedServer server([](int) { return kCompleted; });
  LoadPlan p = plan(2, 5);
  p.schedule = {0ms, 5ms, 10ms, 15ms, 20ms};
  for (const Record& record : run(server, p).records) {
    EXPECT_GE(record.noticed, record.scheduled);
    EXPECT_GE(record.sent, record.noticed);
  }
}

TEST(LoadLoop, RefusalsKeepTheConnection) {
  const ScriptedServer server([](int) { return kRefused; });
  const LoadResult result = run(server, plan(2, 50));
  EXPECT_EQ(count(result, Outcome::Rejected), 50);
  EXPECT_LE(server.connection_count(), 2);
}

// A server may close a kept connection at any time; the request that meets this is sent again.
TEST(LoadLoop, AKeptConnectionThatTheServerClosedCostsNoRequest) {
  const ScriptedServer server([](int number) { return number == 0 ? kCompleted : ""; });
  const LoadResult result = run(server, plan(1, 5));
  EXPECT_EQ(count(result, Outcome::Completed), 5);
  EXPECT_EQ(server.connection_count(), 5);
}

TEST(LoadLoop, AConnectionClosedBeforeAnyAnswerIsTruncatedAndNotRepeated) {
  const ScriptedServer server([](int) { return ""; });
  const LoadResult result = run(server, plan(1, 3));
  EXPECT_EQ(count(result, Outcome::Truncated), 3);
  EXPECT_EQ(server.request_count(), 3);
}

TEST(LoadLoop, NobodyListeningEndsEveryRequest) {
  std::string port;
  { port = ScriptedServer([](int) { return ""; }).port(); }
  const auto address = ServerAddress::resolve("127.0.0.1", port);
  const LoadPlan p = plan(3, 7);
  LoadLoop loop(*address, p);
  EXPECT_EQ(count(loop.run(), Outcome::Truncated), 7);
}

const std::string kNeverEnds = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";

TEST(LoadLoop, AClientThatLeavesClosesItsConnectionAndIsRecordedAsSuch) {
  const ScriptedServer server([](int) { return kNeverEnds; });
  LoadPlan p = plan(2, 4);
  p.leave_after = [](std::uint64_t sequence) { return sequence == 3 ? Time(0) : Time(20ms); };
  const LoadResult result = run(server, p);
  EXPECT_EQ(count(result, Outcome::Left), 4);
  for (const Record& record : result.records) {
    EXPECT_GE(record.ended - record.sent, record.sequence == 3 ? Time(0) : Time(20ms));
    EXPECT_LT(record.ended - record.sent, p.timeout) << "left long after its time";
  }
  EXPECT_EQ(server.connection_count(), 4);
}

TEST(LoadLoop, StoppingLeavesWhatIsOpenAndSendsNothingNew) {
  std::atomic<bool> stop{false};
  const ScriptedServer server([&](int) {
    stop = true;
    return kNeverEnds;
  });
  LoadPlan p = plan(2, 1'000'000);
  p.stop = &stop;
  const LoadResult result = run(server, p);
  EXPECT_EQ(result.records.size(), 2u);
  EXPECT_EQ(count(result, Outcome::Left), 2);
}

TEST(LoadLoop, ARefusedStreamPausesAsLongAsItIsTold) {
  const ScriptedServer server([](int) { return kRefused; });
  LoadPlan p = plan(1, 3);
  p.pause_after_refusal = 20ms;
  const LoadResult result = run(server, p);
  EXPECT_EQ(count(result, Outcome::Rejected), 3);
  for (int i = 1; i < 3; ++i) {
    EXPECT_GE(result.records[i].sent - result.records[i - 1].ended, Time(20ms));
  }
}

TEST(LoadLoop, AnAnswerThatNeverEndsMeetsItsTimeLimit) {
  const ScriptedServer server([](int) { return kNeverEnds; });
  LoadPlan p = plan(1, 1);
  p.timeout = 50ms;
  EXPECT_EQ(count(run(server, p), Outcome::Timeout), 1);
}

}  // namespace
}  // namespace turnstile::load
