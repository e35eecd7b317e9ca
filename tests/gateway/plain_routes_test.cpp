// Every route that generates nothing, and the order of key, target and method.
#include "gateway/plain_routes.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/http/routes.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;
using gateway::ListenerKind;

HttpAnswer ask(SpineWorld& world, const std::string& request,
               ListenerKind listener = ListenerKind::Public) {
  MemoryClient client = world.connect(listener);
  client.send(request);
  world.settle();
  std::string bytes = client.take();
  const auto answer = take_answer(bytes, client.server_has_ended());
  EXPECT_TRUE(answer && answer->is_complete) << request;
  return answer ? *answer : HttpAnswer{};
}

std::string plain(const std::string& method, const std::string& target,
                  const std::string& headers = {}, const std::string& host = "127.0.0.1:8001") {
  return method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n";
}

// Method, target, with key or not, status.
struct Case {
  const char* method;
  const char* target;
  bool with_key;
  int status;
};

TEST(PlainRoutes, KeyThenTargetThenMethod) {
  SpineWorld world;
  const std::string key = "Authorization: Bearer " + world.secret() + "\r\n";
  const Case cases[] = {
      {"GET", "/health", false, 200},
      {"GET", "/livez", false, 200},
      {"GET", "/readyz", false, 200},
      {"POST", "/health", false, 405},
      {"GET", "/metrics", false, 401},
      {"GET", "/metrics", true, 404},
      {"GET", "/nothing", false, 401},
      {"GET", "/nothing", true, 404},
      {"GET", "/v1/models", false, 401},
      {"GET", "/v1/models", true, 200},
      {"DELETE", "/v1/models", true, 405},
      {"OPTIONS", "/v1/models", true, 405},
      {"GET", "/v1/models/toy", true, 200},
      {"GET", "/v1/models/other", true, 404},
      {"GET", "/v1/models/", true, 404},
      {"GET", "/v1//models", true, 404},
      {"GET", "/V1/models", true, 404},
      {"GET", "/v1/models?x=1", true, 404},
      {"GET", "/v1/chat/completions", false, 401},
      {"GET", "/v1/chat/completions", true, 405},
      {"GET", "/admin/state", true, 404},
  };
  for (const Case& each : cases) {
    const HttpAnswer answer =
        ask(world, plain(each.method, each.target, each.with_key ? key : std::string()));
    EXPECT_EQ(answer.status, each.status) << each.method << ' ' << each.target;
    EXPECT_FALSE(answer.header("x-request-id").empty());
    EXPECT_EQ(answer.header("www-authenticate"), answer.status == 401 ? "Bearer" : "");
    if (answer.status == 405) {
      EXPECT_FALSE(answer.header("allow").empty());
    }
  }
}

TEST(PlainRoutes, AdminListenerShowsMetricsAndHealthOnly) {
  SpineWorld world;
  const HttpAnswer metrics = ask(world, plain("GET", "/metrics"), ListenerKind::Admin);
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("turnstile_meter_capacity{meter=\"kv_blocks\"}"),
            std::string::npos);
  // Whoever looks is no connection of the public listener.
  EXPECT_NE(metrics.body.find("turnstile_connections 0\n"), std::string::npos);
  EXPECT_EQ(ask(world, plain("GET", "/readyz"), ListenerKind::Admin).status, 200);
  EXPECT_EQ(ask(world, plain("GET", "/v1/models"), ListenerKind::Admin).status, 404);
}

// Who asks comes before what there is; health is for everybody.
TEST(PlainRoutes, AdminListenerAsksWhoComesFirst) {
  SpineWorld world;
  const std::string key = "adm_0123456789012345678901234567890123456789012";
  world.context.admin = {*gateway::parse_listen_address("127.0.0.1:8001"), key};
  const std::string bearer = "Authorization: Bearer " + key + "\r\n";
  struct Row {
    const char* method;
    const char* target;
    bool with_key;
    const char* host;
    int status;
  };
  const Row rows[] = {
      {"GET", "/metrics", false, "localhost:8001", 200},
      {"GET", "/metrics", false, "evil.example", 403},
      {"GET", "/metrics", true, "prometheus.example", 200},
      {"GET", "/nothing", false, "evil.example", 403},
      {"GET", "/nothing", false, "localhost", 404},
      {"GET", "/health", false, "evil.example", 200},
      {"POST", "/nothing", false, "localhost", 401},
      {"POST", "/nothing", true, "localhost", 404},
      {"GET", "/admin/drain", true, "localhost", 405},
      {"POST", "/admin/drain", false, "localhost", 401},
  };
  for (const Row& row : rows) {
    const HttpAnswer answer = ask(
        world, plain(row.method, row.target, row.with_key ? bearer : std::string(), row.host),
        ListenerKind::Admin);
    EXPECT_EQ(answer.status, row.status) << row.method << ' ' << row.target << ' ' << row.host;
  }
  EXPECT_EQ(world.metric("turnstile_auth_failures_total"), 4);
  EXPECT_EQ(world.context.drain.phase(), gateway::ServePhase::Serving);
}

TEST(PlainRoutes, PostDrainBeginsTheDrainOnce) {
  SpineWorld world;
  for (int i = 0; i < 2; ++i) {
    const HttpAnswer answer = ask(world, plain("POST", "/admin/drain"), ListenerKind::Admin);
    EXPECT_EQ(answer.status, 202);
    EXPECT_EQ(answer.body, R"({"result":"draining"})");
  }
  EXPECT_EQ(ask(world, plain("GET", "/readyz")).status, 503);
  EXPECT_EQ(ask(world, world.get("/v1/models")).status, 200) << "until the delay is over";
  const auto events = world.lines.lines(gateway::LineStream::Events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_NE(events[0].find(R"("event":"drain","by":"admin")"), std::string::npos) << events[0];
  EXPECT_EQ(ask(world, world.get("/admin/drain")).status, 404) << "not on the public listener";
}

TEST(PlainRoutes, HealthSaysWhatIsWrong) {
  SpineWorld world;
  world.lines.set_writable(false);
  EXPECT_EQ(ask(world, plain("GET", "/readyz")).body, "audit\n");
  EXPECT_EQ(ask(world, plain("GET", "/livez")).body, "ok\n");
  world.lines.set_writable(true);
  world.context.drain.begin(world.clock.now());
  EXPECT_EQ(ask(world, plain("GET", "/readyz")).body, "draining\n");
  EXPECT_EQ(ask(world, plain("GET", "/health")).status, 200);
  world.clock.advance(11s);
  const HttpAnswer stalled = ask(world, plain("GET", "/livez"));
  EXPECT_EQ(stalled.status, 503);
  EXPECT_EQ(stalled.body, "stalled\n");
}

TEST(PlainRoutes, RequestsSentAheadDoNotKeepTheThreadFromOthers) {
  SpineWorld world;
  MemoryClient greedy = world.connect();
  MemoryClient other = world.connect();
  std::string ahead;
  for (int i = 0; i < 50; ++i) ahead += plain("GET", "/health");
  greedy.send(ahead);
  other.send(plain("GET", "/health"));
  for (int i = 0; i < 4; ++i) world.turn();
  EXPECT_FALSE(other.received().empty());
  world.settle();
  std::string bytes = greedy.take();
  int answers = 0;
  while (take_answer(bytes)) ++answers;
  EXPECT_EQ(answers, 50) << "and none is lost";
}

TEST(PlainRoutes, OneTurnAnswersOneOfTheRequestsSentAhead) {
  SpineWorld world;
  MemoryClient client = world.connect();
  client.send(plain("GET", "/health") + plain("GET", "/health"));
  world.turn();
  std::string bytes = client.take();
  EXPECT_TRUE(take_answer(bytes));
  EXPECT_TRUE(bytes.empty());
}

TEST(PlainRoutes, HeadHasNoBody) {
  SpineWorld world;
  MemoryClient client = world.connect();
  client.send(plain("HEAD", "/health"));
  world.settle();
  const std::string bytes = client.take();
  EXPECT_TRUE(bytes.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(bytes.find("content-length: 3\r\n"), std::string::npos);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n"));
}

TEST(PlainRoutes, TokenizeAndBack) {
  SpineWorld world;
  const HttpAnswer tokens = ask(world, world.post("/tokenize", R"({"prompt":"zab"})"));
  EXPECT_EQ(tokens.status, 200);
  EXPECT_NE(tokens.body.find("\"tokens\":["), std::string::npos);
  const HttpAnswer text = ask(world, world.post("/detokenize", R"({"tokens":[7,8]})"));
  EXPECT_NE(text.body.find("\"hi\""), std::string::npos);
  EXPECT_EQ(ask(world, world.post("/detokenize", R"({"tokens":[9999]})")).status, 400);
}

TEST(PlainRoutes, Http10IsServedAndClosed) {
  SpineWorld world;
  MemoryClient client = world.connect();
  client.send("GET /health HTTP/1.0\r\n\r\n");
  world.settle();
  EXPECT_NE(client.received().find("connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(client.server_has_ended());
}

TEST(PlainRoutes, ABrokenRequestEndsTheConnection) {
  SpineWorld world;
  MemoryClient client = world.connect();
  client.send("GET /health HTTP/1.1\nHost: t\n\n");
  world.settle();
  EXPECT_TRUE(client.received().starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(client.server_has_ended());
}

// A slow sender is told so; a connection on which nothing ever came is closed without a word.
TEST(PlainRoutes, HeadersHaveTheirTime) {
  SpineWorld world;
  MemoryClient slow = world.connect();
  MemoryClient silent = world.connect();
  slow.send("GET /hea");
  world.settle();
  world.advance(10s);
  EXPECT_TRUE(slow.received().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(world.metric("turnstile_invalid_requests_total", "request_timeout"), 1);
  EXPECT_TRUE(silent.received().empty());
  EXPECT_TRUE(silent.server_has_closed());
  EXPECT_EQ(world.sessions->size(), 0U);
}

}  // namespace
}  // namespace turnstile::tests
