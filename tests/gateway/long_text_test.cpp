// Long texts in the running spine: they are counted by the pool, after they have a place, and
// whatever ends them meanwhile leaves nothing behind.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/http/response_head.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kTextRoute = "/v1/completions";

std::string body_of(std::size_t bytes, int max_tokens = 4) {
  return R"({"max_tokens":)" + std::to_string(max_tokens) + R"(,"prompt":")" +
         std::string(bytes, 'b') + "\"}";
}
std::string long_body() { return body_of(100); }

// A world whose text workers wait until work() is called.
class LongText : public testing::Test {
 protected:
  LongText() { use({}); }
  void TearDown() override {
    world_->holds_texts = false;
    world_->run_engine();
    EXPECT_EQ(world_->context.live.size(), 0U);
    EXPECT_EQ(world_->context.admission.running() + world_->context.admission.queued(), 0);
    EXPECT_EQ(world_->context.bodies.held_bytes(), 0U);
    EXPECT_EQ(world_->context.texts.waiting() + world_->context.texts.running(), 0U);
    EXPECT_EQ(world_->context.admission.check_invariants(world_->clock.now()), std::nullopt);
  }

  void use(std::string_view more_policy, gateway::LongText sizes = {.body_bytes = 4096,
                                                                    .text_bytes = 64}) {
    SpineWorldOptions options;
    options.policy += more_policy;
    options.long_text = sizes;
    world_.reset();
    world_ = std::make_unique<SpineWorld>(std::move(options));
    world_->holds_texts = true;
  }
  SpineWorld& world() { return *world_; }

  MemoryClient ask(std::string_view body, std::string_view path = kTextRoute) {
    MemoryClient client = world_->connect();
    client.send(world_->post(path, body));
    world_->settle();
    return client;
  }
  void work() {
    while (world_->text_workers.step()) world_->settle();
  }
  HttpAnswer answer_of(MemoryClient& client) {
    std::string bytes = client.take();
    const auto answer = take_answer(bytes, client.server_has_ended());
    EXPECT_TRUE(answer) << "no answer";
    return answer ? *answer : HttpAnswer{};
  }
  std::size_t texts() const { return world_->context.texts.running(); }

 private:
  std::unique_ptr<SpineWorld> world_;
};

TEST_F(LongText, ShortOnesAreCountedAtOnce) {
  MemoryClient client = ask(body_of(64));
  EXPECT_EQ(texts(), 0U);
  EXPECT_EQ(world().context.admission.running(), 1);
}

// A template may show the names of those who speak.
TEST_F(LongText, ALongNameIsALongText) {
  const std::string body = R"({"messages":[{"role":"user","content":"b","name":")" +
                           std::string(100, 'b') + "\"}]}";
  MemoryClient client = ask(body, "/v1/chat/completions");
  EXPECT_EQ(texts(), 1U);
}

TEST_F(LongText, IsCountedAfterItHasItsPlaceWhileOthersAreServed) {
  MemoryClient client = ask(long_body());
  EXPECT_EQ(texts(), 1U);
  EXPECT_EQ(world().context.admission.queued(), 1);
  EXPECT_GT(world().context.bodies.held_bytes(), 0U) << "its bytes are still here";
  MemoryClient other = ask(body_of(8));
  world().run_engine();
  EXPECT_EQ(answer_of(other).status, 200);
  work();
  EXPECT_EQ(world().context.bodies.held_bytes(), 0U);
  world().run_engine();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"prompt_tokens\":100"), std::string::npos);
}

TEST_F(LongText, ALongBodyIsReadByThePoolToo) {
  MemoryClient client = ask(body_of(300, 4) + std::string(4096, ' '));
  EXPECT_EQ(texts(), 1U);
  EXPECT_EQ(world().context.admission.queued(), 0) << "nobody knows yet what it asks for";
  work();
  world().run_engine();
  EXPECT_EQ(answer_of(client).status, 200);
  MemoryClient broken = ask("{" + std::string(5000, ' '));
  work();
  EXPECT_EQ(answer_of(broken).status, 400);
  EXPECT_EQ(world().metric("turnstile_requests_arrived_total"), 1);
}

TEST_F(LongText, WithoutAPlaceItIsNotCounted) {
  use("inflight = 0\nqueue_requests = 0\n");
  MemoryClient client = ask(long_body());
  EXPECT_EQ(texts(), 0U);
  EXPECT_EQ(answer_of(client).status, 429);
  EXPECT_EQ(world().audit_count("refused"), 1U);
}

// The client leaves by FIN or by reset while its text waits or is being counted.
TEST_F(LongText, AClientThatLeavesFreesItsPlaceAtOnce) {
  for (const bool by_reset : {false, true}) {
    for (const bool waits : {false, true}) {
      use({});
      std::optional<MemoryClient> first;
      if (waits) first = ask(long_body());
      MemoryClient client = ask(long_body());
      EXPECT_EQ(world().context.texts.waiting(), waits ? 1U : 0U);
      by_reset ? client.reset() : client.close();
      world().settle();
      EXPECT_EQ(world().context.admission.queued(), waits ? 1 : 0);
      EXPECT_EQ(world().context.texts.waiting(), 0U);
      EXPECT_EQ(world().sessions->size(), waits ? 1U : 0U);
      EXPECT_EQ(world().metric("turnstile_requests_finished_total", "outcome=\"client_gone\""), 1);
      EXPECT_EQ(world().audit_count("ended"), 1U) << "ended alone: it had no verdict";
      EXPECT_EQ(world().audit_count("admitted"), 0U);
      TearDown();
    }
  }
}

// Its request stays counted: tokenizing is not free for who leaves in time.
TEST_F(LongText, WhoLeavesHasUsedUpARequest) {
  use("requests_per_minute = 4\n");  // a bucket of one
  MemoryClient client = ask(long_body());
  client.close();
  world().settle();
  MemoryClient next = ask(body_of(4));
  EXPECT_EQ(answer_of(next).status, 429);
}

// Refused by its exact size: charged nothing, the request rate included.
TEST_F(LongText, ARefusalAfterCountingLeavesNoTrace) {
  use("requests_per_minute = 4\ntokens_per_minute = 4000\nmax_input_tokens = 90\n");
  MemoryClient client = ask(long_body());
  EXPECT_EQ(texts(), 1U);
  work();
  const HttpAnswer refused = answer_of(client);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("input_too_long"), std::string::npos);
  EXPECT_EQ(world().audit_count("refused"), 1U);
  MemoryClient next = ask(body_of(80));
  work();
  world().run_engine();
  EXPECT_EQ(answer_of(next).status, 200);
}

TEST_F(LongText, AnInvalidOneHasNeverArrived) {
  use("requests_per_minute = 4\n");
  MemoryClient client = ask(body_of(3000));
  work();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("context_length_exceeded"), std::string::npos);
  EXPECT_EQ(world().metric("turnstile_requests_arrived_total"), 0);
  EXPECT_TRUE(world().audit_text().empty());
  MemoryClient next = ask(body_of(4));
  world().run_engine();
  EXPECT_EQ(answer_of(next).status, 200);
}

TEST_F(LongText, AKeyThatIsRevokedEndsIt) {
  MemoryClient client = ask(long_body());
  world().context.live.revoke_keys([](std::string_view) { return true; });
  world().settle();
  EXPECT_EQ(answer_of(client).status, 403);
  EXPECT_EQ(world().context.admission.queued(), 0);
}

TEST_F(LongText, TheDrainWaitsForIt) {
  MemoryClient client = ask(long_body());
  world().context.drain.begin(world().clock.now());
  world().advance(6s);
  EXPECT_EQ(world().context.drain.phase(), gateway::ServePhase::Refusing);
  work();
  world().run_engine();
  EXPECT_EQ(answer_of(client).status, 200);
  EXPECT_EQ(world().context.drain.phase(), gateway::ServePhase::Ending);
}

TEST_F(LongText, TheEndOfTheServerDoesNot) {
  MemoryClient counted = ask(long_body());
  MemoryClient read = ask(body_of(300) + std::string(4096, ' '));
  world().sessions->shut_down_all();
  world().settle();
  EXPECT_EQ(answer_of(counted).status, 503);
  EXPECT_EQ(answer_of(read).status, 503);
  EXPECT_EQ(world().metric("turnstile_requests_finished_total", "outcome=\"fault\""), 1);
}

TEST_F(LongText, AFullPoolIs503) {
  use("queue_requests = 1000\n[defaults]\nqueue_requests_total = 1000\n");
  std::vector<MemoryClient> clients;
  for (std::size_t i = 0; i < gateway::TextPool::kMaxTasksOfTeam; ++i) {
    clients.push_back(ask(body_of(100), "/tokenize"));
  }
  MemoryClient late = ask(long_body());
  const HttpAnswer answer = answer_of(late);
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("overloaded"), std::string::npos);
  EXPECT_EQ(answer.header("Retry-After"), "1");
  EXPECT_EQ(world().context.admission.queued(), 0);
  MemoryClient token_route = ask(body_of(100), "/tokenize");
  EXPECT_EQ(answer_of(token_route).status, 503);
  work();
  EXPECT_EQ(answer_of(clients.back()).status, 200);
}

TEST_F(LongText, TokenRoutesUseThePool) {
  std::string ids = "1";
  for (int i = 0; i < 40; ++i) ids += ",1";
  const std::pair<std::string, std::string> asks[] = {
      {"/tokenize", body_of(100)}, {"/detokenize", R"({"tokens":[)" + ids + "]}"}};
  for (const auto& [path, body] : asks) {
    MemoryClient client = ask(body, path);
    EXPECT_EQ(texts(), 1U) << path;
    EXPECT_TRUE(client.received().empty());
    work();
    EXPECT_EQ(answer_of(client).status, 200) << path;
    client.close();
    MemoryClient gone = ask(body, path);
    gone.close();
    world().settle();
    EXPECT_EQ(world().sessions->size(), 0U) << path;
    work();
  }
}

// The engine orders prompts of a class by when their first token is due.
TEST_F(LongText, TheEngineIsToldWhenTheFirstTokenIsDue) {
  use("[classes.interactive]\nttft = \"3s\"\nqueue_ttl = \"3s\"\n");
  std::vector<std::uint64_t> due_us;
  world().engine.plan = [&](const engine::Request& request) {
    due_us.push_back(request.deadline);
    return FakePlan{};
  };
  world().advance(10s);
  MemoryClient plain = ask(body_of(4));
  MemoryClient urgent = world().connect();
  urgent.send(world().post(kTextRoute, body_of(4), 0, "X-Turnstile-Deadline-Ms: 250\r\n"));
  MemoryClient patient = world().connect();
  patient.send(world().post(kTextRoute, body_of(4), 0, "X-Turnstile-Deadline-Ms: 9000\r\n"));
  world().run_engine();
  EXPECT_EQ(due_us, (std::vector<std::uint64_t>{13'000'000, 10'250'000, 13'000'000}));
}

// Eight choices tell a long prompt back in one step, which is more than a chunk may hold.
TEST(LongAnswer, AStepOfManyMegabytesLeavesInSeveralChunks) {
  constexpr std::size_t kIds = 720'000;
  SpineWorldOptions options;
  options.max_model_len = 800'000;
  options.engine.blocks = 8 * options.max_model_len / FakeEngine::kBlockTokens;
  SpineWorld world(std::move(options));
  world.engine.plan = [](const engine::Request&) {
    return FakePlan{.prompt_tokens_per_step = kIds, .completion_tokens = 1};
  };
  std::string ids = "10";
  for (std::size_t i = 1; i < kIds; ++i) ids += ",10";
  MemoryClient client = world.connect();
  client.send(world.post("/v1/completions", R"({"n":8,"max_tokens":1,"stream":true,)"
                                            R"("return_token_ids":true,"prompt":[)" +
                                                ids + "]}"));
  world.settle();
  world.run_engine();
  std::string bytes = client.take();
  const auto answer = take_answer(bytes, client.server_has_ended());
  ASSERT_TRUE(answer && answer->is_complete);
  EXPECT_GT(answer->body.size(), gateway::kMaxChunkBytes);
  EXPECT_TRUE(answer->body.ends_with("data: [DONE]\n\n"));
}

// The first chunk is larger than a slow reader may leave unread; who reads it is not slow.
TEST(LongAnswer, AReaderOfALongFirstChunkIsNotSlow) {
  SpineWorldOptions options;
  options.max_model_len = 8'000;
  options.limits.stream_soft_bytes = 2'048;
  options.limits.stream_hard_bytes = 4'096;
  SpineWorld world(std::move(options));
  std::string ids = "10";
  for (int i = 1; i < 5'000; ++i) ids += ",10";
  MemoryClient client = world.connect();
  client.set_window(1'024);
  client.send(world.post("/v1/completions", R"({"max_tokens":8,"stream":true,)"
                                            R"("return_token_ids":true,"prompt":[)" + ids + "]}"));
  std::string bytes;
  do {
    world.engine.step();
    world.settle();
    bytes += client.take();
    world.settle();
  } while (!client.received().empty() || world.engine.open_requests() > 0);
  const auto answer = take_answer(bytes, client.server_has_ended());
  ASSERT_TRUE(answer && answer->is_complete);
  EXPECT_TRUE(answer->body.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace turnstile::tests
