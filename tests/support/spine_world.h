// spine_world.h: the real spine over in-memory connections, with a fake engine and a manual clock.
//
// Everything between the bytes of a client and the engine's port is the product's own: sessions,
// the spine, policy, keys, audit, metrics. One thread, no socket, no sleeping:
//
//   world.connect() -> client.send(...) -> world.settle() -> world.engine.step() -> world.settle()
//
// settle() runs the io_context, long texts and the ends of turns until nothing moves any more, as
// the server's loop would. Time stands still but for advance().
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "gateway/session_set.h"
#include "gateway/spine_context.h"
#include "tests/support/fake_engine.h"
#include "tests/support/fake_text_workers.h"
#include "tests/support/http_answer.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_connection.h"
#include "tests/support/memory_lines.h"

namespace turnstile::tests {

struct SpineWorldOptions {
  std::string policy =
      "[depts.main]\n"
      "[teams.lab]\ndept = \"main\"\n";  // TOML
  std::vector<std::pair<std::string, std::string>> keys = {{"anna", "lab"}};  // id, team
  std::string more_keys;  // TOML after the keys
  FakeEngineLimits engine;
  std::uint32_t max_model_len = 512;
  gateway::LimitsConfig limits;
  gateway::LongText long_text;
  std::size_t text_workers = 1;
  policy::Duration drain_delay = std::chrono::seconds(5);
  policy::Duration drain_timeout = std::chrono::seconds(60);
  std::uint64_t seed = 1;
};

class SpineWorld {
 public:
  explicit SpineWorld(SpineWorldOptions options = {});
  ~SpineWorld();
  SpineWorld(const SpineWorld&) = delete;
  SpineWorld& operator=(const SpineWorld&) = delete;

  // Opens a connection whose session has started.
  MemoryClient connect(gateway::ListenerKind listener = gateway::ListenerKind::Public,
                       gateway::PeerAddress peer = {"192.0.2.7", false});

  // Runs until nothing moves. `holds_texts`: the text workers do nothing meanwhile.
  void settle();
  bool holds_texts = false;
  // At most so many handlers, then the end of a turn: for tests that look between.
  bool turn(std::size_t most_handlers = 1);
  void advance(policy::Duration by);
  // Steps the engine and settles until the engine has nothing left to do.
  void run_engine();

  const std::string& secret(std::size_t key = 0) const { return secrets_[key]; }

  // A whole request with the key of that index; `more` are header lines with their CRLF.
  std::string post(std::string_view path, std::string_view body, std::size_t key = 0,
                   std::string_view more = {}) const;
  std::string get(std::string_view path, std::size_t key = 0) const;

  std::string audit_text() const { return lines.text(gateway::LineStream::Audit); }
  // Audit lines of this kind ("refused", "admitted", "ended").
  std::size_t audit_count(std::string_view kind) const;
  std::string metrics_text();
  // The sum of a family's samples whose labels hold `labels` ("outcome=\"refused\"").
  double metric(std::string_view family, std::string_view labels = {});

  gateway::ManualClock clock;
  gateway::MemoryLines lines;
  FakeEngine engine;
  FakeTextWorkers text_workers;

 private:
  SpineWorldOptions options_;
  gateway::SeededRandom random_;
  std::vector<std::string> secrets_;
  boost::asio::io_context io_{1};
  gateway::Deadlines deadlines_;
  gateway::RequestIds ids_;
  gateway::KeyStore keys_;
  policy::Admission admission_;
  gateway::RequestParser parser_;
  std::shared_ptr<const engine::Tokenizer> tokenizer_;
  engine::ChatTemplate template_;
  gateway::ModelFacts model_;
  gateway::AuditLog audit_;
  gateway::Metrics metrics_;
  gateway::BodyBudget bodies_;
  gateway::Drain drain_;
  gateway::LiveRequests live_;
  gateway::TextPool texts_;

 public:
  gateway::SpineContext context;
  std::unique_ptr<gateway::SessionSet> sessions;
};

}  // namespace turnstile::tests
