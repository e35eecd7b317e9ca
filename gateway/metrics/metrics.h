// metrics.h: everything that GET /metrics shows.
//
// Typed methods, one per thing that happens; gateway/metrics/metrics_table.h declares every series
// with its type, unit, labels, buckets and the reason for them. Requests are followed by their
// record's phase, so that at every scrape, by construction,
//
//   arrived = finished (by outcome) + queued (by class) + running (by team)
//
// Labels come from closed sets: classes and teams of the policy (the first 200 teams, the rest
// `other`), codes of the interface. Nothing a client sends becomes a label.
//
// Thread: I/O. Cost: a method is a few counter increments; handles are made once per label set.
// Tests:  tests/gateway/metrics_test.cpp (text against a golden; the balance over random lives).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/step_output.h"
#include "gateway/records/records.h"
#include "policy/instant.h"
#include "policy/outcome.h"

namespace turnstile::gateway {

struct MetricsLabels {
  std::string model_name;            // the engine's name, label of the vllm: families
  std::vector<std::string> teams;    // of the policy
  std::vector<std::string> classes;  // of the policy
  std::string speculation = "none";  // how tokens are guessed: none, ngram, draft_model
};

class Metrics {
 public:
  explicit Metrics(const MetricsLabels& labels);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The life of an arrived request, in this order; each moves record.phase.
  //
  //   New -on_arrived-> Arrived -on_queued-> Queued -on_running-> Running <-on_paused/on_resumed->
  //                                                                                        Paused
  //   any of them -on_finished-> Ended
  void on_arrived(RequestRecord& record);
  void on_queued(RequestRecord& record);   // class and team are known and it waits
  void on_running(RequestRecord& record);  // holds a permit
  void on_paused(RequestRecord& record);
  void on_resumed(RequestRecord& record);
  // Exactly once per arrived request, with outcome, code and times filled in.
  void on_finished(RequestRecord& record);

  // The verdict, exactly once per arrived request that got one (not for a client that left the
  // queue). `code` is empty when admitted.
  enum class Verdict : std::uint8_t { Admitted, Refused };
  void on_verdict(const RequestRecord& record, Verdict verdict, std::string_view code);

  // Not arrived: counted apart.
  void on_auth_failure();
  void on_invalid(std::string_view code);
  void on_unknown_field();  // a request field that we accept and do not know

  void on_token_gap(policy::Duration gap);  // between two tokens of one choice
  void on_step(const engine::StepStats& stats, policy::Duration step_time);

  void on_connection_opened();
  void on_connection_closed();
  void on_connection_refused();
  void on_tls_handshake(bool ok);

  void on_policy_reload(std::string_view result);  // "applied", "unchanged", "rejected"
  void on_key_reload(std::string_view result);  // "applied", "partial", "rejected"
  void set_key_file_errors(std::size_t errors);
  void set_policy_revision(std::string_view revision);  // "r1-0a1b2c3d" holds the hash
  void set_meters(std::span<const policy::MeterView> meters);

  // Prometheus text format 0.0.4. Reads /proc/self for the process families.
  std::string text();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
