// One request whose life is cut at every byte it sends and at every turn it lives.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/completion.h"
#include "gateway/live_request.h"
#include "gateway/request_end.h"
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
enum class Fault {
  Fin,
  Reset,
  EngineFails,
  ServerEnds,
  ServerDrains,
  NoAuditLog,
  TimePasses,
  KeyRevoked
};
constexpr Fault kFaults[] = {Fault::Fin,          Fault::Reset,      Fault::EngineFails,
                             Fault::ServerEnds,   Fault::ServerDrains, Fault::NoAuditLog,
                             Fault::TimePasses,   Fault::KeyRevoked};

// Where a request waits: for its body, its text, its permit, the engine, or its client to read.
struct Life {
  const char* name;
  bool stream = false;
  bool is_long = false;      // its text is counted by the pool
  bool waits = false;        // another request holds the only permit of its team
  std::size_t piece = 4096;  // bytes that the client sends at a time
  std::size_t window = std::size_t{1} << 20;  // bytes that it lets wait unread
};
constexpr Life kLives[] = {
    {.name = "streamed", .stream = true},
    {.name = "in one piece, sent and read in pieces", .piece = 90, .window = 300},
    {.name = "a long text", .stream = true, .is_long = true},
    {.name = "queued", .waits = true},
    {.name = "read in drops", .stream = true, .window = 1500},
};

void plant(SpineWorld& world, MemoryClient& client, Fault fault) {
  switch (fault) {
    case Fault::Fin: return client.close();
    case Fault::Reset: return client.reset();
    case Fault::EngineFails: return world.engine.fail("planted");
    case Fault::ServerEnds: return world.sessions->shut_down_all();
    case Fault::ServerDrains: return world.context.drain.begin(world.clock.now());
    case Fault::NoAuditLog: return world.lines.set_writable(false);
    case Fault::TimePasses: return world.clock.advance(700s);
    case Fault::KeyRevoked:
      return world.context.live.revoke_keys([](std::string_view) { return true; });
  }
}

double completed(SpineWorld& world) {
  return world.metric("turnstile_requests_finished_total", "outcome=\"completed\"");
}

// Requests that hold a permit and with which the engine is done.
double done_in_engine(SpineWorld& world) {
  return static_cast<double>(world.context.admission.running()) -
         static_cast<double>(world.engine.open_requests());
}

std::optional<std::string> live_through(Fault fault, int at, const Life& life, bool& was_over) {
  SpineWorldOptions options;
  if (life.is_long) options.long_text = {.body_bytes = 0, .text_bytes = 0};
  if (life.waits) {
    options.policy = "[depts.main]\n[teams.lab]\ndept = \"main\"\ninflight = 1\n";
  }
  SpineWorld world(options);
  FakePlan plan;
  plan.prompt_tokens_per_step = 8;
  plan.completion_tokens = 3;
  plan.pause_after = 2;
  world.engine.plan = [plan](const engine::Request&) { return plan; };
  MemoryClient before = world.connect();
  if (life.waits) {
    before.send(world.post(kChatPath, chat(false, 1)));
    world.settle();
  }
  MemoryClient client = world.connect();
  client.set_window(life.window);
  std::string unsent = world.post(kChatPath, chat(life.stream, 2));
  // What the client does when nothing else moves.
  const auto go_on = [&] {
    const std::string piece = unsent.substr(0, life.piece);
    unsent.erase(0, piece.size());
    if (!piece.empty()) client.send(piece);
    return !piece.empty() || !client.take().empty();
  };
  int quiet = 0;
  double may_complete = 0;
  was_over = true;
  for (int turn = 0; turn < 600 && quiet < 4; ++turn) {
    if (turn == at) {
      was_over = false;
      may_complete = completed(world) + std::max(0.0, done_in_engine(world));
      plant(world, client, fault);
    }
    const bool moved = world.turn() || world.text_workers.step() || world.engine.step() ||
                       go_on();
    quiet = moved ? 0 : quiet + 1;
  }
  // What the engine was not done with when all had to end is not completed any more.
  if (!was_over && (fault == Fault::EngineFails || fault == Fault::ServerEnds)) {
    if (world.context.live.size() != 0) return "it waits for ever";
    if (completed(world) > may_complete) return "it goes on as if nothing had happened";
  }
  client.close();
  before.close();
  world.run_engine();
  if (auto broken = world.context.admission.check_invariants(world.clock.now())) return broken;
  if (world.sessions->size() != 0) return "a session that does not end";
  if (world.context.live.size() != 0) return "a lease that was kept";
  if (world.context.admission.running() + world.context.admission.queued() != 0) return "a permit";
  if (world.context.bodies.held_bytes() != 0) return "bytes of a body";
  if (world.context.deadlines.size() != 0) return "a deadline of nobody";
  const double arrived = world.metric("turnstile_requests_arrived_total");
  if (world.metric("turnstile_requests_finished_total") != arrived) return "no outcome";
  if (world.audit_count("ended") + world.audit_count("refused") != arrived) return "audit lines";
  return std::nullopt;
}

TEST(CompletionFaults, AFaultAtEveryTurnEndsTheRequestOnce) {
  for (const Life& life : kLives) {
    const bool is_first = &life == std::begin(kLives);
    for (const Fault fault : kFaults) {
      // These two take the same ways as Fin and as none: once is enough.
      if (!is_first && (fault == Fault::Reset || fault == Fault::NoAuditLog)) continue;
      bool was_over = false;
      int at = 0;
      for (; !was_over; ++at) {
        const auto broken = live_through(fault, at, life, was_over);
        ASSERT_FALSE(broken) << *broken << ": fault " << static_cast<int>(fault) << " at turn "
                             << at << ", " << life.name;
      }
      EXPECT_GT(at, 10) << life.name << ": over before anything can go wrong";
    }
  }
}

// An exception takes the coroutine and the request in it, wherever it is: what has arrived gets its
// line, once, also when it was refused and held nothing any more.
TEST(CompletionFaults, ARequestThatIsTornDownIsRecordedOnce) {
  enum class Stage { Asked, Waiting, Refused, Finished };
  for (const Stage stage : {Stage::Asked, Stage::Waiting, Stage::Refused, Stage::Finished}) {
    SpineWorldOptions options;
    options.policy += "inflight = 1\n[classes.interactive]\nqueue_ttl = \"2s\"\n";
    SpineWorld world(options);
    MemoryClient occupant = world.connect();
    occupant.send(world.post(kChatPath, chat(true, 1)));
    world.settle();
    gateway::SpineContext& context = world.context;
    gateway::Mailbox mailbox(context.executor);
    gateway::RequestRecord record;
    const auto resolved = context.admission.resolve(world.clock.now(), {.key_id = "anna"});
    ASSERT_TRUE(resolved);
    record.set_resolved(*resolved);
    record.arrived = world.clock.now();
    {
      gateway::LiveRequest live(context, mailbox, record);
      ASSERT_TRUE(live.ask(*resolved, {.prompt_tokens = 2, .max_tokens = 5}));
      if (stage != Stage::Asked) {
        context.metrics.on_arrived(record);
        context.metrics.on_queued(record);
      }
      if (stage == Stage::Refused) world.advance(2s);
      if (stage == Stage::Finished) {
        live.release(policy::EndKind::Cancelled);
        finish_record(record, gateway::RequestEnd::client_gone(), false, context);
      }
    }
    EXPECT_EQ(record.refusal.has_value(), stage == Stage::Refused);
    const std::size_t ends = stage == Stage::Asked ? 0 : 1;
    EXPECT_EQ(world.audit_count("ended"), ends) << static_cast<int>(stage);
    EXPECT_EQ(world.lines.lines(gateway::LineStream::Requests).size(), ends);
    EXPECT_EQ(world.metric("turnstile_requests_finished_total"), static_cast<double>(ends));
    EXPECT_EQ(context.admission.queued(), 0);
    EXPECT_EQ(context.live.size(), 1U) << "the occupant";
  }
}

// The server ends in the turn in which it refuses: nobody hears of it, the records do.
TEST(CompletionFaults, ARefusalInTheLastTurnIsRecorded) {
  SpineWorldOptions options;
  options.policy += "inflight = 1\n[classes.interactive]\nqueue_ttl = \"2s\"\n";
  SpineWorld world(options);
  MemoryClient clients[] = {world.connect(), world.connect()};
  for (MemoryClient& client : clients) {
    client.send(world.post(kChatPath, chat(true, 1)));
    world.settle();
  }
  world.clock.advance(2s);
  world.turn(0);
  world.sessions->abandon_all();
  world.settle();
  EXPECT_TRUE(clients[1].received().empty());
  EXPECT_EQ(world.audit_count("refused"), 1U);
  EXPECT_EQ(world.metric("turnstile_requests_finished_total", "outcome=\"refused\""), 1);
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
