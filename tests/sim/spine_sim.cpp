#include "tests/sim/spine_sim.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "gateway/ids.h"
#include "gateway/served_model.h"
#include "gateway/spine_turn.h"
#include "tests/sim/spine_books.h"
#include "tests/sim/spine_client.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMaxClients = 16;
constexpr std::uint64_t kMovesBetweenBalances = 64;

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  // 0 ... most, both possible.
  std::uint64_t up_to(std::uint64_t most) { return random_.next() % (most + 1); }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + up_to(most - least);
  }
  bool one_in(std::uint64_t n) { return up_to(n - 1) == 0; }

 private:
  gateway::SeededRandom random_;
};

SpineWorldOptions random_world(std::uint64_t seed, Chance& chance) {
  SpineWorldOptions options;
  options.seed = seed;
  options.engine.blocks = chance.between(24, 200);
  options.engine.sequences = static_cast<std::uint32_t>(chance.between(1, 8));
  engine::Limits engine;
  engine.max_num_seqs = options.engine.sequences;
  options.limits.max_connections = kMaxClients;
  options.engine.max_open_requests = *gateway::most_engine_requests(engine, options.limits);
  options.max_model_len = static_cast<std::uint32_t>(chance.between(64, 256));
  options.keys = {{"anna", "lab"}, {"ben", "lab"}, {"cora", "course"}};
  const auto setting = [&](std::string_view name, std::uint64_t least, std::uint64_t most) {
    if (chance.one_in(2)) return std::string();
    return std::string(name) + " = " + std::to_string(chance.between(least, most)) + "\n";
  };
  options.policy = "[depts.main]\n" + setting("inflight", 1, 8);
  for (const std::string_view team : {"lab", "course"}) {
    options.policy += "[teams." + std::string(team) + "]\ndept = \"main\"\n" +
                      setting("inflight", 1, 4) + setting("queue_requests", 0, 6) +
                      setting("requests_per_minute", 4, 200) +
                      setting("tokens_per_minute", 200, 20'000) + setting("weight", 1, 5);
  }
  options.policy +=
      "[classes.interactive]\nqueue_ttl = \"4s\"\n"
      "prefill_timeout = { base = \"3s\" }\ndecode_timeout = { stall = \"2s\", total = \"20s\" }\n";
  options.limits.stream_hard_bytes = 4096;
  options.limits.stream_soft_bytes = 1024;
  options.limits.read_buffer_bytes = 4096;
  options.limits.max_header_bytes = 2048;
  options.limits.max_header_field_bytes = 1024;
  options.limits.max_requests_per_connection = static_cast<std::uint32_t>(chance.between(1, 4));
  options.long_text.body_bytes = chance.up_to(400);
  options.long_text.text_bytes = chance.up_to(60);
  options.text_workers = chance.between(1, 2);
  options.drain_delay = std::chrono::milliseconds(chance.between(0, 3000));
  options.drain_timeout = std::chrono::milliseconds(chance.between(500, 8000));
  return options;
}

FakePlan random_plan(Chance& chance) {
  FakePlan plan;
  plan.prompt_tokens_per_step = static_cast<std::uint32_t>(chance.between(4, 64));
  plan.cached_tokens = static_cast<std::uint32_t>(chance.one_in(3) ? chance.up_to(16) : 0);
  plan.completion_tokens = static_cast<std::uint32_t>(chance.up_to(40));
  if (chance.one_in(4)) plan.pause_after = static_cast<std::uint32_t>(chance.up_to(6));
  plan.paused_steps = static_cast<std::uint32_t>(chance.up_to(6));
  if (chance.one_in(12)) plan.finish = engine::FinishReason::Fault;
  return plan;
}

class SpineSim {
 public:
  explicit SpineSim(std::uint64_t seed) : chance_(seed), world_(random_world(seed, chance_)) {
    world_.engine.plan = [this](const engine::Request&) { return random_plan(chance_); };
    has_rare_events_ = chance_.one_in(3);
    keys_ = world_.context.keys.nodes();
  }

  SpineSimResult run(std::uint64_t most_moves) {
    const std::uint64_t moves = std::min(most_moves, chance_.between(200, 700));
    for (result_.counts.moves = 0; result_.counts.moves < moves; ++result_.counts.moves) {
      try {
        move();
      } catch (const std::exception& error) {
        return failed(error.what());
      }
      if (auto broken = check()) return failed(*broken);
    }
    if (auto broken = finish()) return failed(*broken);
    for (const gateway::LineStream stream :
         {gateway::LineStream::Audit, gateway::LineStream::Requests}) {
      result_.log_hash ^= std::hash<std::string>{}(world_.lines.text(stream));
      result_.log_hash *= 0x9E37'79B9'7F4A'7C15u;
    }
    return result_;
  }

 private:
  SpineSimResult failed(std::string sentence) {
    result_.failure =
        std::move(sentence) + " (at move " + std::to_string(result_.counts.moves) + ")";
    return result_;
  }

  std::optional<std::string> check() {
    if (auto broken = check_live(world_)) return broken;
    if (world_.engine.not_taken() > 0) return "a request with a permit was not taken";
    const bool looks_at_all = result_.counts.moves % kMovesBetweenBalances == 0;
    if (looks_at_all) {
      if (auto broken = check_balance(world_)) return broken;
    }
    for (const auto& client : clients_) {
      if (!looks_at_all && client.get() != moved_) continue;
      if (auto broken = client->complaint(false)) return broken;
    }
    return std::nullopt;
  }

  void move() {
    moved_ = nullptr;
    const std::uint64_t choice = chance_.up_to(99);
    if (choice < 38) {
      world_.turn(chance_.one_in(2) ? 1 : chance_.between(2, 8));
    } else if (choice < 42) {
      world_.text_workers.step(chance_.up_to(1));
    } else if (choice < 60) {
      world_.engine.step();
    } else if (choice < 88) {
      move_client();
    } else if (choice < 96) {
      advance();
    } else if (choice < 98) {
      close_or_open_a_key();
    } else {
      rare_event();
    }
  }

  // As the watch of keys.toml does it; with `revoke --now` what the key has ends at once.
  void close_or_open_a_key() {
    policy::KeyNode& key = keys_[chance_.up_to(keys_.size() - 1)];
    if (!key.disabled && !chance_.one_in(3)) return;
    key.disabled = !key.disabled;
    world_.context.admission.set_keys(world_.clock.now(), keys_);
    if (!key.disabled || chance_.one_in(3)) return;
    world_.context.live.revoke_keys([&](std::string_view id) { return id == key.id; });
  }

  // Time: mostly a little, sometimes exactly to the next deadline, sometimes far.
  void advance() {
    const auto next = gateway::next_wake(world_.context);
    policy::Duration by = std::chrono::milliseconds(chance_.up_to(200));
    if (next && *next > world_.clock.now() && chance_.one_in(4)) {
      by = *next - world_.clock.now();
    } else if (chance_.one_in(10)) {
      by = std::chrono::milliseconds(chance_.up_to(5000));
    }
    world_.clock.advance(by);
  }

  void rare_event() {
    if (!has_rare_events_ || !chance_.one_in(3)) return;
    switch (chance_.up_to(4)) {
      case 0: world_.context.drain.begin(world_.clock.now()); break;
      case 1: world_.engine.fail("planted"); break;
      case 2: world_.lines.set_writable(!world_.lines.is_writable()); break;
      case 3:
        if (world_.context.drain.phase() == gateway::ServePhase::Ending) {
          world_.sessions->shut_down_all();
        }
        break;
      default: world_.sessions->shut_down_all(); break;
    }
  }

  void move_client() {
    if (clients_.size() < kMaxClients && (clients_.empty() || chance_.one_in(4))) {
      MemoryClient end;
      SpineAsk ask = random_ask();
      world_.sessions->adopt(end.connect(), gateway::ListenerKind::Public);
      clients_.push_back(std::make_unique<SpineClient>(std::move(end), std::move(ask)));
      return;
    }
    SpineClient& client = *clients_[chance_.up_to(clients_.size() - 1)];
    moved_ = &client;
    if (client.has_left()) return;
    switch (chance_.up_to(19)) {
      case 0: client.leave(false); break;
      case 1: client.leave(true); break;
      case 2: client.set_window(chance_.up_to(300)); break;
      case 3: client.set_window(1 << 20); break;
      default:
        if (client.has_more_to_send()) {
          client.send(chance_.one_in(3) ? chance_.between(1, 60) : 1 << 20);
        } else {
          client.take();
        }
    }
  }

  SpineAsk random_ask() {
    SpineAsk ask;
    const std::size_t key = chance_.up_to(2);
    const std::uint64_t kind = chance_.up_to(19);
    if (kind == 0) ask.kind = AskKind::BadJson;
    if (kind == 1) ask.kind = AskKind::NoKey;
    if (kind == 2) ask.kind = AskKind::WrongTarget;
    if (kind == 3) ask.kind = AskKind::Models;
    if (kind == 4) ask.kind = AskKind::Tokenize;
    ask.stream = chance_.one_in(2);
    ask.is_chat = chance_.one_in(2);
    ask.wants_usage = ask.stream && chance_.one_in(2);
    const auto n = static_cast<std::uint32_t>(chance_.one_in(3) ? 1 + chance_.up_to(3) : 1);
    const std::size_t prompts = !ask.is_chat && chance_.one_in(3) ? 1 + chance_.up_to(2) : 1;
    ask.choices = n * static_cast<std::uint32_t>(prompts);
    const std::string text(chance_.between(1, chance_.one_in(10) ? 300 : 60), 'a');
    std::string body;
    if (ask.is_chat) {
      body = R"({"messages":[{"role":"user","content":")" + text + "\"}]";
    } else {
      body = R"({"prompt":[)";
      for (std::size_t i = 0; i < prompts; ++i) body += (i > 0 ? ",\"" : "\"") + text + "\"";
      body += "]";
    }
    body += ",\"n\":" + std::to_string(n);
    if (!chance_.one_in(4)) body += ",\"max_tokens\":" + std::to_string(chance_.between(1, 40));
    if (ask.stream) body += ",\"stream\":true";
    if (ask.wants_usage) body += R"(,"stream_options":{"include_usage":true})";
    body += ask.kind == AskKind::BadJson ? "" : "}";
    std::string more;
    if (chance_.one_in(3)) more = "X-Turnstile-Class: batch\r\n";
    if (chance_.one_in(6)) more = "X-Turnstile-Class: demo\r\n";
    std::string path = ask.is_chat ? "/v1/chat/completions" : "/v1/completions";
    if (ask.kind == AskKind::WrongTarget) path += "/";
    if (ask.kind == AskKind::Tokenize) {
      path = "/tokenize";
      body = R"({"prompt":")" + text + "\"}";
    }
    ask.bytes = ask.kind == AskKind::Models ? world_.get("/v1/models", key)
                                            : world_.post(path, body, key, more);
    if (ask.kind == AskKind::NoKey) ask.bytes.replace(ask.bytes.find("Bearer "), 7, "Basic  ");
    return ask;
  }

  // Lets everything come to its end: clients that stay send and read all, the others have left.
  std::optional<std::string> finish() {
    try {
      for (int round = 0; round < 400; ++round) {
        for (const auto& client : clients_) {
          if (client->has_left()) continue;
          client->set_window(1 << 20);
          if (client->has_more_to_send()) client->send(1 << 20);
          client->take();
        }
        world_.settle();
        if (!world_.engine.step()) world_.engine.beat();
        world_.settle();
        if (auto broken = check_live(world_)) return broken;
        if (round % 8 == 7) world_.advance(100ms);
      }
      for (const auto& client : clients_) {
        if (!client->has_left()) client->take();
        if (auto broken = client->complaint(true)) return broken;
        if (!client->has_left()) client->leave(false);
      }
      for (int round = 0; round < 100; ++round) {
        world_.settle();
        world_.engine.step();
        world_.advance(1s);
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    return check_end(world_, result_.counts);
  }

  Chance chance_;
  SpineWorld world_;
  std::vector<std::unique_ptr<SpineClient>> clients_;
  const SpineClient* moved_ = nullptr;
  std::vector<policy::KeyNode> keys_;
  bool has_rare_events_ = false;
  SpineSimResult result_;
};

}  // namespace

SpineSimResult run_spine_sim(std::uint64_t seed, std::uint64_t most_moves) {
  return SpineSim(seed).run(most_moves);
}

}  // namespace turnstile::tests
