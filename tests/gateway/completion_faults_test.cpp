// One request whose life is cut at every byte it sends and at every turn it lives.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/completion.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kChatPath = "/v1/chat/completions";

std::string chat(bool stream, int n) {
  return R"({"messages":[{"role":"user","content":"hello there"}],"max_tokens":20,"n":)" +
         std::to_string(n) + ",\"stream\":" + (stream ? "true" : "false") + "}";
}

// One request, and at every turn of its life one thing goes wrong: the spine ends it once, gives
// everything back and never waits for ever.
enum class Fault { Fin, Reset, EngineFails, ServerEnds, TimePasses, KeyRevoked };

std::optional<std::string> live_through(Fault fault, int at, bool stream, bool is_long,
                                        bool& was_over) {
  SpineWorldOptions options;
  if (is_long) options.long_text = {.body_bytes = 0, .text_bytes = 0};
  SpineWorld world(options);
  FakePlan plan;
  plan.prompt_tokens_per_step = 4;
  plan.completion_tokens = 4;
  plan.pause_after = 2;
  world.engine.plan = [plan](const engine::Request&) { return plan; };
  MemoryClient client = world.connect();
  client.send(world.post(kChatPath, chat(stream, 2)));
  int quiet = 0;
  was_over = true;
  for (int turn = 0; turn < 400 && quiet < 4; ++turn) {
    if (turn == at) {
      was_over = false;
      switch (fault) {
        case Fault::Fin: client.close(); break;
        case Fault::Reset: client.reset(); break;
        case Fault::EngineFails: world.engine.fail("planted"); break;
        case Fault::ServerEnds: world.sessions->shut_down_all(); break;
        case Fault::TimePasses: world.clock.advance(700s); break;
        case Fault::KeyRevoked:
          world.context.live.revoke_keys([](std::string_view) { return true; });
          break;
      }
    }
    const bool moved = world.turn();
    const bool stepped = !moved && (world.text_workers.step() || world.engine.step());
    quiet = moved || stepped ? 0 : quiet + 1;
  }
  client.close();
  world.run_engine();
  if (auto broken = world.context.admission.check_invariants(world.clock.now())) return broken;
  if (world.sessions->size() != 0) return "a session that does not end";
  if (world.context.live.size() != 0) return "a lease that was kept";
  if (world.context.admission.running() + world.context.admission.queued() != 0) return "a permit";
  const double arrived = world.metric("turnstile_requests_arrived_total");
  if (world.metric("turnstile_requests_finished_total") != arrived) return "no outcome";
  if (world.audit_count("ended") + world.audit_count("refused") != arrived) return "audit lines";
  return std::nullopt;
}

TEST(CompletionFaults, AFaultAtEveryTurnEndsTheRequestOnce) {
  for (const Fault fault : {Fault::Fin, Fault::Reset, Fault::EngineFails, Fault::ServerEnds,
                            Fault::TimePasses, Fault::KeyRevoked}) {
    for (const auto& [stream, is_long] : {std::pair(false, false), {true, false}, {true, true}}) {
      bool was_over = false;
      int at = 0;
      for (; !was_over; ++at) {
        const auto broken = live_through(fault, at, stream, is_long, was_over);
        ASSERT_FALSE(broken) << *broken << ": fault " << static_cast<int>(fault) << " at turn " << at
                             << (stream ? ", streamed" : "") << (is_long ? ", a long text" : "");
      }
      EXPECT_GT(at, 10) << "the request is over before anything can go wrong";
    }
  }
}

// The client goes after each byte of its request, short texts and long ones: nothing is kept, and
// what was not whole has not arrived.
TEST(CompletionFaults, ARequestThatIsCutAnywhereLeavesNothing) {
  for (const bool is_long : {false, true}) {
    for (const bool by_reset : {false, true}) {
      SpineWorldOptions options;
      if (is_long) options.long_text = {.body_bytes = 0, .text_bytes = 0};
      SpineWorld world(options);
      const std::string request = world.post(kChatPath, chat(false, 1));
      for (std::size_t bytes = 0; bytes < request.size(); ++bytes) {
        MemoryClient client = world.connect();
        client.send(std::string_view(request).substr(0, bytes));
        world.settle();
        by_reset ? client.reset() : client.close();
        world.settle();
        ASSERT_EQ(world.sessions->size(), 0U) << bytes;
        ASSERT_EQ(world.context.bodies.held_bytes(), 0U) << bytes;
      }
      EXPECT_EQ(world.metric("turnstile_requests_arrived_total"), 0);
    }
  }
}

}  // namespace
}  // namespace turnstile::tests
