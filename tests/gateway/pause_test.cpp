// A demo takes the place of batch requests in the running spine, and they go on afterwards.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/served_model.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

constexpr std::string_view kPauseRoute = "/v1/chat/completions";

std::string pausing_chat(bool stream) {
  return std::string(R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":20,)") +
         "\"stream\":" + (stream ? "true" : "false") + "}";
}

SpineWorldOptions with_slots(std::uint32_t slots) {
  SpineWorldOptions options;
  options.engine.sequences = slots;
  return options;
}

MemoryClient start(SpineWorld& world, std::string_view class_name, bool stream = false) {
  MemoryClient client = world.connect();
  client.send(world.post(kPauseRoute, pausing_chat(stream), 0,
                         "X-Turnstile-Class: " + std::string(class_name) + "\r\n"));
  world.settle();
  return client;
}

void step_engine(SpineWorld& world, int steps) {
  for (int i = 0; i < steps; ++i) {
    world.engine.step();
    world.settle();
  }
}

HttpAnswer answer_after_pause(MemoryClient& client) {
  std::string bytes = client.take();
  const auto answer = take_answer(bytes, client.server_has_ended());
  EXPECT_TRUE(answer) << "no answer";
  return answer.value_or(HttpAnswer{});
}

std::string text_of(const HttpAnswer& answer) {
  const std::size_t at = answer.body.find("\"content\":");
  if (at == std::string::npos) return {};
  return answer.body.substr(at, answer.body.find('}', at) - at);
}

double finished_as(SpineWorld& world, std::string_view outcome) {
  return world.metric("turnstile_requests_finished_total",
                      "outcome=\"" + std::string(outcome) + "\"");
}

void expect_nothing_held(SpineWorld& world) {
  EXPECT_EQ(world.context.live.size(), 0U);
  EXPECT_EQ(world.context.admission.running(), 0);
  EXPECT_EQ(world.context.admission.queued(), 0);
  EXPECT_EQ(world.engine.open_requests(), 0U);
  EXPECT_EQ(world.engine.held_blocks(), 0U);
}

// The newest batch request gives its place for as long as the demo runs, and its text goes on where
// it was.
TEST(Pause, DemoTakesThePlaceOfBatchAndBothAnswersAreWhole) {
  SpineWorld world(with_slots(2));
  world.engine.plan = [](const engine::Request& request) {
    FakePlan plan;
    plan.completion_tokens = request.priority == 0 ? 3 : 12;
    return plan;
  };
  MemoryClient first = start(world, "batch");
  MemoryClient second = start(world, "batch");
  step_engine(world, 4);
  MemoryClient demo = start(world, "demo");
  EXPECT_EQ(world.context.admission.running(), 2);
  EXPECT_EQ(world.context.admission.queued(), 1) << "one batch request waits again";
  step_engine(world, 5);
  EXPECT_EQ(answer_after_pause(demo).status, 200);
  world.run_engine();
  const HttpAnswer kept = answer_after_pause(first);
  const HttpAnswer paused = answer_after_pause(second);
  EXPECT_EQ(kept.status, 200);
  EXPECT_EQ(paused.status, 200);
  EXPECT_FALSE(text_of(kept).empty());
  EXPECT_EQ(text_of(paused), text_of(kept)) << "the same text as without a pause";
  EXPECT_NE(paused.body.find("\"pauses\":1"), std::string::npos) << paused.body;
  EXPECT_EQ(finished_as(world, "completed"), 3);
  expect_nothing_held(world);
}

// Each class pauses the one below, with as many prompts as there are slots: three engines full are
// set aside and a fourth runs. Slots do not bound what is open, connections do.
TEST(Pause, WhoIsPausedTakesNobodysRoomHoweverManyPromptsItHas) {
  constexpr std::uint32_t kSlots = 4;
  const std::vector<std::string> classes = {"batch", "standard", "interactive", "demo"};
  SpineWorldOptions options = with_slots(kSlots);
  for (const std::string& name : classes) {
    options.policy += "[classes." + name + "]\nwatermark = 1.0\nfloor = 0\ncan_preempt = true\n"
                      "preemptible = true\n";
  }
  engine::Limits engine;
  engine.max_num_seqs = kSlots;
  options.limits.max_connections = static_cast<std::uint32_t>(classes.size());
  options.engine.max_open_requests = *gateway::most_engine_requests(engine, options.limits);
  SpineWorld world(std::move(options));
  world.engine.plan = [](const engine::Request&) {
    FakePlan plan;
    plan.completion_tokens = 12;
    return plan;
  };
  std::vector<MemoryClient> clients;
  for (const std::string& name : classes) {
    clients.push_back(world.connect());
    clients.back().send(world.post("/v1/completions",
                                   R"({"prompt":["a","b","c","d"],"max_tokens":20})", 0,
                                   "X-Turnstile-Class: " + name + "\r\n"));
    world.settle();
    step_engine(world, 3);
  }
  EXPECT_EQ(world.engine.open_requests(), kSlots * classes.size());
  world.run_engine();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const HttpAnswer answer = answer_after_pause(clients[i]);
    EXPECT_EQ(answer.status, 200) << classes[i] << ": " << answer.body;
    const std::string pauses = classes[i] == "demo" ? "\"pauses\":0" : "\"pauses\":1";
    EXPECT_NE(answer.body.find(pauses), std::string::npos)
        << "pauses of the request, not of its prompts: " << answer.body;
  }
  EXPECT_EQ(finished_as(world, "completed"), 4);
  expect_nothing_held(world);
}

// Its client leaves while it is paused: everything goes back, and nobody waits for it.
TEST(Pause, PausedRequestIsCancelledLikeAnyOther) {
  SpineWorld world(with_slots(1));
  world.engine.plan = [](const engine::Request&) {
    FakePlan plan;
    plan.completion_tokens = 15;
    return plan;
  };
  MemoryClient batch = start(world, "batch", true);
  step_engine(world, 3);
  MemoryClient demo = start(world, "demo");
  step_engine(world, 2);
  EXPECT_EQ(world.context.admission.queued(), 1);
  batch.close();
  world.settle();
  step_engine(world, 2);
  EXPECT_EQ(world.context.admission.queued(), 0);
  EXPECT_EQ(finished_as(world, "client_gone"), 1);
  world.run_engine();
  EXPECT_EQ(finished_as(world, "completed"), 1);
  expect_nothing_held(world);
}

// charge = "hard": 300 tokens in the bucket pay the prompt of 6 and four quanta of 64.
TEST(BudgetExhausted, EndsTheAnswerAsByItsLengthAndSaysWhy) {
  SpineWorldOptions options;
  options.policy += "tokens_per_minute = 1200\ncharge = \"hard\"\n";
  SpineWorld world(std::move(options));
  world.engine.plan = [](const engine::Request&) {
    FakePlan plan;
    plan.completion_tokens = 400;
    return plan;
  };
  MemoryClient client = world.connect();
  client.send(world.post(kPauseRoute,
                         R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":400})"));
  world.settle();
  world.run_engine();
  const HttpAnswer answer = answer_after_pause(client);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"finish_reason\":\"length\""), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("\"completion_tokens\":256"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("\"end_code\":\"budget_exhausted\""), std::string::npos);
  EXPECT_EQ(finished_as(world, "completed"), 1);
  expect_nothing_held(world);
}

TEST(Deadline, HeaderMustBeAWholeNumberOfMilliseconds) {
  SpineWorld world;
  for (const std::string_view value : {"0", "-5", "soon", "1.5", "86400001"}) {
    MemoryClient client = world.connect();
    client.send(world.post(kPauseRoute, pausing_chat(false), 0,
                           "X-Turnstile-Deadline-Ms: " + std::string(value) + "\r\n"));
    world.settle();
    const HttpAnswer answer = answer_after_pause(client);
    EXPECT_EQ(answer.status, 400) << value;
    EXPECT_NE(answer.body.find("X-Turnstile-Deadline-Ms"), std::string::npos) << answer.body;
  }
}

// Whoever waits no longer than it said gets the refusal at that moment.
TEST(Deadline, EndsTheWaitOfTheClientThatSetIt) {
  SpineWorld world(with_slots(1));
  MemoryClient running = start(world, "interactive");
  MemoryClient hurried = world.connect();
  hurried.send(world.post(kPauseRoute, pausing_chat(false), 0, "X-Turnstile-Deadline-Ms: 300\r\n"));
  world.settle();
  world.advance(std::chrono::milliseconds(300));
  world.settle();
  const HttpAnswer answer = answer_after_pause(hurried);
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.body.find("queue_deadline"), std::string::npos) << answer.body;
  world.run_engine();
  EXPECT_EQ(answer_after_pause(running).status, 200);
  expect_nothing_held(world);
}

}  // namespace
}  // namespace turnstile::tests
