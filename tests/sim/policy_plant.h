// policy_plant.h: the policy core in front of a model of an engine, in virtual time.
//
// The engine works in steps: every running request decodes one token, and what is left of the chunk
// budget goes to prompts, best class first. A step takes a fixed time, a time for each decoding
// request and a time for each prompt token. Everything is exact: lengths, tokens, blocks.
//
// Used for what only shows under load: floors, headroom, predictions, storms of retries, and
// replays of recorded traffic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/admission.h"

namespace turnstile::policy::sim {

struct PlantRequest {
  Instant arrival{};
  std::string key;
  std::string class_name;  // empty: the default of its key
  std::int64_t prompt = 1;
  std::int64_t max_tokens = 1;
  std::optional<RequestId> ticket;  // that it shows
  int attempt = 0;                  // for those who submit it again
  std::optional<RefusalCode> first_code;  // of its first attempt
  std::int64_t length = 1;  // tokens at which it stops by itself, at most max_tokens
};

// How one submission ended.
struct PlantResult {
  PlantRequest request;
  std::optional<RefusalCode> refused;
  std::optional<Duration> retry_after;
  std::optional<RequestId> ticket;
  std::optional<Duration> predicted;  // of the first token, when something was predicted
  std::optional<Instant> dispatched;
  std::optional<Instant> first_token;
  std::optional<Instant> ended;
  std::int64_t pauses = 0;
  std::int64_t generated = 0;
  std::int64_t charged = 0;  // to the first of its token budgets
};

struct StepModel {
  Duration base = std::chrono::microseconds(4000);
  Duration per_decode = std::chrono::microseconds(500);
  Duration per_prompt_token = std::chrono::microseconds(50);
  std::int64_t chunk_tokens = 256;
};

class Plant {
 public:
  Plant(std::shared_ptr<const PolicySet> policy, EngineFacts engine,
        const std::vector<KeyNode>& keys, StepModel model = {});

  // Requests to come, in any order. `on_end` is told of every end and may submit more, at times not
  // before now().
  void submit(PlantRequest request);
  std::function<void(const PlantResult&)> on_end = [](const PlantResult&) {};

  // Until nothing is left, or `until`.
  void run(Instant until = Instant::max());

  Instant now() const { return now_; }
  const std::vector<PlantResult>& results() const { return results_; }
  // Service units delivered so far, by class name and by key.
  std::int64_t units_of_class(const std::string& name) const;
  std::int64_t units_of_key(const std::string& key) const;
  std::int64_t units() const { return units_; }
  // The sentence that is broken, when an invariant was.
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  struct Live {
    PlantResult result;
    std::string class_name;
    ClassIndex class_index = 0;
    bool runs = false;
    bool bound = false;
    std::int64_t to_compute = 0;   // prompt tokens, after a pause all known ones
    std::int64_t prompt_left = 0;  // of it, what is reported as computed
    std::int64_t generated = 0;
  };

  void arrive(PlantRequest request);
  void dispatch();
  void step();
  void finish(RequestId id, Live& live);
  void count(const Live& live, std::int64_t units);

  std::shared_ptr<const PolicySet> policy_;
  Admission admission_;
  StepModel model_;
  Instant now_{};
  std::multimap<Instant, PlantRequest> to_come_;
  std::map<RequestId, Live> live_;
  std::vector<PlantResult> results_;
  std::vector<Outcome> outcomes_;
  std::map<std::string, std::int64_t> units_by_class_;
  std::map<std::string, std::int64_t> units_by_key_;
  std::int64_t units_ = 0;
  std::uint64_t last_id_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace turnstile::policy::sim
