// The spine over in-memory connections: what a client sees, what is recorded, and that everything
// is given back, in each phase in which a request can end.
#include "gateway/completion.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;

std::string chat_body(bool stream, int n = 1, int max_tokens = 20) {
  return R"({"messages":[{"role":"user","content":"hello there"}],"n":)" + std::to_string(n) +
         ",\"max_tokens\":" + std::to_string(max_tokens) +
         ",\"stream\":" + (stream ? "true" : "false") + "}";
}

constexpr std::string_view kChatRoute = "/v1/chat/completions";

FakePlan long_answer() {
  FakePlan plan;
  plan.completion_tokens = 400;
  plan.prompt_tokens_per_step = 2;
  return plan;
}

HttpAnswer answer_of(MemoryClient& client) {
  std::string bytes = client.take();
  const auto answer = take_answer(bytes, client.server_has_ended());
  EXPECT_TRUE(answer) << "no answer";
  return answer ? *answer : HttpAnswer{};
}

// A world and its clients. However a test goes, nothing is held at its end.
class Completion : public testing::Test {
 protected:
  Completion() { use({}); }

  void TearDown() override {
    world_->run_engine();
    expect_nothing_held();
  }

  void use(SpineWorldOptions options) {
    world_.reset();
    world_ = std::make_unique<SpineWorld>(std::move(options));
  }
  // The policy of the default world with more settings of the team, then of the rest.
  void use_policy(std::string_view more) {
    SpineWorldOptions options;
    options.policy += more;
    use(std::move(options));
  }
  SpineWorld& world() { return *world_; }

  void give_long_answers() {
    world_->engine.plan = [](const engine::Request&) { return long_answer(); };
  }

  // A new client that has sent this body.
  MemoryClient ask(std::string_view body, std::string_view path = kChatRoute) {
    MemoryClient client = world_->connect();
    client.send(world_->post(path, body));
    world_->settle();
    return client;
  }

  void step_engine(int steps = 1) {
    for (int i = 0; i < steps; ++i) {
      world_->engine.step();
      world_->settle();
    }
  }

  double finished_as(std::string_view outcome) {
    return world_->metric("turnstile_requests_finished_total",
                          "outcome=\"" + std::string(outcome) + "\"");
  }

  void expect_nothing_held() {
    EXPECT_EQ(world_->context.live.size(), 0U);
    EXPECT_EQ(world_->context.admission.running(), 0);
    EXPECT_EQ(world_->context.admission.queued(), 0);
    EXPECT_EQ(world_->context.bodies.held_bytes(), 0U);
    if (world_->engine.fault()) return;  // what a broken engine holds is gone with it
    EXPECT_EQ(world_->engine.open_requests(), 0U);
    EXPECT_EQ(world_->engine.held_blocks(), 0U);
  }

 private:
  std::unique_ptr<SpineWorld> world_;
};

TEST_F(Completion, StreamHasRoleTextFinishUsageAndDone) {
  MemoryClient client = ask(R"({"messages":[{"role":"user","content":"hi"}],)"
                            R"("stream":true,"stream_options":{"include_usage":true}})");
  world().run_engine();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.is_complete);
  EXPECT_EQ(answer.header("x-turnstile-class"), "interactive");
  EXPECT_EQ(answer.header("x-turnstile-policy"), "r1-00000001");
  EXPECT_FALSE(answer.header("x-request-id").empty());
  const auto events = stream_events(answer.body);
  // Role, eight texts, finish, usage, done.
  ASSERT_EQ(events.size(), 12U);
  EXPECT_NE(events[0].find("\"role\":\"assistant\""), std::string::npos);
  EXPECT_NE(events[1].find("\"content\":\"a\""), std::string::npos);
  EXPECT_NE(events[9].find("\"finish_reason\":\"stop\""), std::string::npos);
  EXPECT_NE(events[10].find("\"completion_tokens\":9"), std::string::npos);
  EXPECT_NE(events[10].find("\"turnstile\":{"), std::string::npos);
  EXPECT_EQ(events[11], "[DONE]");
  EXPECT_FALSE(answer.header("date").empty());
  expect_nothing_held();
  EXPECT_EQ(world().audit_count("admitted"), 1U);
  EXPECT_EQ(world().audit_count("ended"), 1U);
  EXPECT_EQ(finished_as("completed"), 1);
}

// Everything that a step brings for a stream leaves in one chunk: the role and the first text of
// all choices together.
TEST_F(Completion, OneWriteForAStep) {
  MemoryClient client = ask(chat_body(true, 4));
  EXPECT_TRUE(client.received().empty()) << "no status before the first token";
  ASSERT_TRUE(world().engine.step());
  world().settle();
  std::string bytes = client.take();
  const auto first = take_answer(bytes);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->chunks, 1U);
  EXPECT_EQ(stream_events(first->body).size(), 8U);
}

TEST_F(Completion, SeveralPromptsShareOneVerdict) {
  MemoryClient client =
      ask(R"({"prompt":["a","bc"],"n":2,"max_tokens":3})", "/v1/completions");
  world().run_engine();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"index\":3"), std::string::npos);
  EXPECT_NE(answer.body.find("\"prompt_tokens\":3,\"completion_tokens\":12"), std::string::npos);
  EXPECT_EQ(world().audit_count("admitted"), 1U);
}

TEST_F(Completion, AStrangersBodyIsNeverRead) {
  MemoryClient client = world().connect();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
  world().settle();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.header("www-authenticate"), "Bearer");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(client.server_has_ended());
  EXPECT_EQ(world().context.bodies.held_bytes(), 0U);
  EXPECT_EQ(world().metric("turnstile_auth_failures_total"), 1);
}

TEST_F(Completion, ContinueIsSaidAfterTheKeyAndBeforeTheBody) {
  MemoryClient client = world().connect();
  const std::string body = chat_body(false);
  const std::string request = world().post(kChatRoute, body, 0, "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.size() - body.size()));
  world().settle();
  EXPECT_EQ(answer_of(client).status, 100);
  client.send(body);
  world().run_engine();
  EXPECT_EQ(answer_of(client).status, 200);
}

TEST_F(Completion, InvalidRequestsAreNotArrived) {
  MemoryClient client = ask("{");
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.header("x-turnstile-class"), "interactive");
  EXPECT_EQ(world().metric("turnstile_requests_arrived_total"), 0);
  EXPECT_EQ(world().metric("turnstile_invalid_requests_total"), 1);
  // The connection goes on.
  client.send(world().post(kChatRoute, chat_body(false)));
  world().run_engine();
  EXPECT_EQ(answer_of(client).status, 200);
}

TEST_F(Completion, TooLongForTheContextIs400AndLeavesNoAudit) {
  use({.max_model_len = 64});
  MemoryClient client = ask(chat_body(false, 1, 60));
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("context_length_exceeded"), std::string::npos);
  EXPECT_NE(answer.body.find("\"param\":\"max_tokens\""), std::string::npos);
  EXPECT_TRUE(world().audit_text().empty());
}

TEST_F(Completion, RefusalOfPolicyIsAudited) {
  use_policy("requests_per_minute = 0\n");
  MemoryClient client = ask(chat_body(true));
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("x-admission-code"), "rate_requests");
  EXPECT_EQ(answer.header("x-should-retry"), "false");
  EXPECT_EQ(answer.header("x-ratelimit-limit-requests"), "0");
  EXPECT_EQ(world().audit_count("refused"), 1U);
  EXPECT_EQ(finished_as("refused"), 1);
  EXPECT_EQ(world().metric("turnstile_admission_decisions_total", "outcome=\"refused\""), 1);
}

TEST_F(Completion, AWaitThatIsTooLongIsAReal429) {
  use_policy("inflight = 1\n[classes.interactive]\nqueue_ttl = \"2s\"\n");
  give_long_answers();
  MemoryClient first = ask(chat_body(true, 1, 400));
  MemoryClient second = ask(chat_body(true));
  EXPECT_TRUE(second.received().empty());
  world().advance(2s);
  const HttpAnswer answer = answer_of(second);
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.body.find("queue_deadline"), std::string::npos);
  EXPECT_EQ(world().audit_count("refused"), 1U);
}

// The client leaves by FIN or by reset; streaming or not; one choice or four; while it waits,
// during prefill, during decode. Slot and blocks are free after one engine step.
struct Leave {
  bool stream;
  int choices;
  bool by_reset;
  int steps;  // of the engine before the client leaves; the prompt takes six
};

class ClientLeaves : public Completion, public testing::WithParamInterface<Leave> {};

TEST_P(ClientLeaves, EverythingIsFreeWithinOneStep) {
  const Leave leave = GetParam();
  give_long_answers();
  MemoryClient client = ask(chat_body(leave.stream, leave.choices, 400));
  step_engine(leave.steps);
  ASSERT_EQ(world().context.admission.running(), 1);
  if (leave.by_reset) {
    client.reset();
  } else {
    client.close();
  }
  world().settle();
  EXPECT_EQ(world().context.admission.running(), 1) << "the engine still holds the blocks";
  step_engine();
  expect_nothing_held();
  EXPECT_EQ(world().sessions->size(), 0U);
  EXPECT_EQ(world().audit_count("ended"), 1U);
  EXPECT_EQ(finished_as("client_gone"), 1);
}

std::vector<Leave> all_leaves() {
  std::vector<Leave> all;
  for (const bool stream : {false, true}) {
    for (const int choices : {1, 4}) {
      for (const bool by_reset : {false, true}) {
        for (const int steps : {0, 2, 9}) all.push_back({stream, choices, by_reset, steps});
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Phases, ClientLeaves, testing::ValuesIn(all_leaves()));

TEST_F(Completion, AClientThatLeavesPaysForWhatWasComputed) {
  use_policy("tokens_per_minute = 10000\n");
  give_long_answers();
  MemoryClient client = ask(chat_body(true, 1, 400));
  step_engine(9);
  client.close();
  world().settle();
  step_engine();
  const std::string audit = world().audit_text();
  EXPECT_NE(audit.find("\"used\":"), std::string::npos);
  EXPECT_EQ(audit.find("\"used\":0"), std::string::npos);
}

TEST_F(Completion, AClientThatLeavesTheQueueHasNoVerdict) {
  use_policy("inflight = 1\n");
  give_long_answers();
  MemoryClient first = ask(chat_body(true, 1, 400));
  MemoryClient second = ask(chat_body(true));
  EXPECT_EQ(world().context.admission.queued(), 1);
  second.close();
  world().settle();
  EXPECT_EQ(world().context.admission.queued(), 0);
  EXPECT_EQ(world().audit_count("admitted"), 1U);
  EXPECT_EQ(world().audit_count("ended"), 1U);
  EXPECT_EQ(world().metric("turnstile_admission_decisions_total"), 1);
}

TEST_F(Completion, WithoutAnAuditLogNothingNewBeginsAndWhatRunsGoesOn) {
  give_long_answers();
  MemoryClient running = ask(chat_body(false, 1, 30));
  world().lines.set_writable(false);
  MemoryClient late = ask(chat_body(false));
  const HttpAnswer refused = answer_of(late);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "5");
  EXPECT_NE(refused.body.find("audit_unavailable"), std::string::npos);
  world().run_engine();
  EXPECT_EQ(answer_of(running).status, 200);
  EXPECT_EQ(world().audit_count("ended"), 1U);
  world().lines.set_writable(true);
  MemoryClient next = ask(chat_body(false, 1, 2));
  world().run_engine();
  EXPECT_EQ(answer_of(next).status, 200);
}

// A reader that takes nothing costs a bounded buffer, and others do not notice it.
TEST_F(Completion, SlowReaderEndsAsClientSlowAndDelaysNobody) {
  SpineWorldOptions options;
  options.limits.stream_hard_bytes = 8192;
  options.limits.stream_soft_bytes = 4096;
  use(options);
  give_long_answers();
  MemoryClient slow = world().connect();
  slow.set_window(0);
  slow.send(world().post(kChatRoute, chat_body(true, 1, 400)));
  MemoryClient other = ask(chat_body(true, 1, 100));
  world().run_engine();
  EXPECT_TRUE(answer_of(other).is_complete);
  EXPECT_NE(world().audit_text().find("client_slow"), std::string::npos);
  EXPECT_TRUE(slow.server_has_closed());
}

TEST_F(Completion, AReaderThatStallsIsCutOffAfterItsTime) {
  give_long_answers();
  MemoryClient slow = world().connect();
  slow.set_window(100);
  slow.send(world().post(kChatRoute, chat_body(true, 1, 400)));
  world().settle();
  step_engine(10);
  EXPECT_FALSE(slow.server_has_closed());
  world().advance(14s);
  EXPECT_FALSE(slow.server_has_closed());
  world().advance(1s);
  step_engine();
  EXPECT_TRUE(slow.server_has_closed());
  EXPECT_NE(world().audit_text().find("client_slow"), std::string::npos);
}

// Its permit is back, so an answer in one piece must not be kept for as long as a request may take:
// a reader that takes a little now and then has what a slow sender would have, and no more.
TEST_F(Completion, WhoReadsAWholeAnswerInDropsIsCutOff) {
  SpineWorldOptions options;
  options.limits.body_bytes_per_second = 100;
  use(options);
  give_long_answers();
  MemoryClient slow = world().connect();
  slow.set_window(1);
  slow.send(world().post(kChatRoute, chat_body(false, 1, 400)));
  world().run_engine();
  EXPECT_EQ(world().context.admission.running(), 0);
  int seconds = 0;
  for (; seconds < 600 && !slow.server_has_closed(); ++seconds) {
    slow.take();
    world().advance(1s);
  }
  // About 1,100 bytes at 100 a second, and the time for a stall.
  EXPECT_GT(seconds, 20);
  EXPECT_LT(seconds, 35);
  EXPECT_EQ(world().sessions->size(), 0U);
}

TEST_F(Completion, WhoReadsAWholeAnswerFastEnoughGetsIt) {
  SpineWorldOptions options;
  options.limits.body_bytes_per_second = 100;
  use(options);
  give_long_answers();
  MemoryClient client = world().connect();
  client.set_window(150);
  client.send(world().post(kChatRoute, chat_body(false, 1, 400)));
  world().run_engine();
  std::string bytes;
  for (int second = 0; second < 30; ++second) {
    bytes += client.take();
    world().advance(1s);
  }
  const auto answer = take_answer(bytes);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->is_complete);
}

TEST_F(Completion, PrefillTimeoutIs504BeforeAnyStatus) {
  use_policy("[classes.interactive]\nprefill_timeout = { base = \"3s\" }\n");
  give_long_answers();
  MemoryClient client = ask(chat_body(true));
  world().engine.step();
  world().advance(40s);
  step_engine();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 504);
  EXPECT_NE(answer.body.find("prefill_timeout"), std::string::npos);
  EXPECT_EQ(finished_as("timed_out"), 1);
}

TEST_F(Completion, StallInAStreamIsAnErrorEventAndDone) {
  use_policy("[classes.interactive]\ndecode_timeout = { stall = \"2s\", total = \"60s\" }\n");
  MemoryClient client = ask(chat_body(true));
  step_engine();
  world().advance(2s);
  step_engine();
  const auto events = stream_events(answer_of(client).body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_NE(events[events.size() - 2].find("decode_stall"), std::string::npos);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(Completion, SilenceInAStreamIsCommentedWhileTheEngineLives) {
  use_policy("[classes.interactive]\ndecode_timeout = { stall = \"60s\", total = \"2m\" }\n");
  MemoryClient client = ask(chat_body(true));
  step_engine();
  client.take();
  world().advance(10s);
  world().engine.beat();
  world().advance(5s);
  const std::size_t first = client.received().find(": wait\n\n");
  EXPECT_NE(first, std::string::npos);
  world().advance(15s);
  EXPECT_EQ(client.received().find(": wait\n\n", first + 1), std::string::npos)
      << "the engine is stuck";
  world().engine.beat();
  world().advance(9s);
  world().engine.beat();
  world().advance(6s);
  EXPECT_NE(client.received().find(": wait\n\n", first + 1), std::string::npos);
}

TEST_F(Completion, EngineFaultEndsStreamsWithAnErrorEvent) {
  give_long_answers();
  MemoryClient client = ask(chat_body(true, 1, 400));
  step_engine(10);
  world().engine.fail("planted");
  world().settle();
  const auto events = stream_events(answer_of(client).body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_NE(events[events.size() - 2].find("engine_fault"), std::string::npos);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(world().context.admission.running(), 0);
  EXPECT_EQ(world().context.drain.phase(), gateway::ServePhase::Ending);
}

// The last step's report and the fault are seen in one turn: the report is read first and must not
// pass for the end of the answer.
TEST_F(Completion, EngineFaultRightAfterAStepIsNoGoodEnd) {
  give_long_answers();
  MemoryClient client = ask(chat_body(false, 1, 400));
  world().engine.step();
  world().engine.fail("planted");
  world().settle();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("engine_fault"), std::string::npos);
}

TEST_F(Completion, DrainRefusesNewRequestsAfterTheDelayAndFinishesTheRest) {
  give_long_answers();
  MemoryClient running = ask(chat_body(true, 1, 30));
  world().context.drain.begin(world().clock.now());
  MemoryClient in_delay = ask(chat_body(false, 1, 2));
  world().advance(5s);
  MemoryClient late = ask(chat_body(false));
  const HttpAnswer refused = answer_of(late);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_NE(refused.body.find("draining"), std::string::npos);
  world().run_engine();
  EXPECT_EQ(answer_of(in_delay).status, 200);
  EXPECT_TRUE(answer_of(running).is_complete);
  EXPECT_EQ(world().context.drain.phase(), gateway::ServePhase::Ending);
}

TEST_F(Completion, ThePipelinedRequestIsAnsweredAfterTheFirst) {
  MemoryClient client = world().connect();
  client.send(world().post(kChatRoute, chat_body(false)) + world().get("/v1/models"));
  world().run_engine();
  std::string bytes = client.take();
  const auto first = take_answer(bytes);
  const auto second = take_answer(bytes);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->body.find("chat.completion"), std::string::npos);
  EXPECT_NE(second->body.find("\"object\":\"list\""), std::string::npos);
}

}  // namespace
}  // namespace turnstile::tests
