#include "tests/sim/policy_fairness.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "policy/admission.h"
#include "tests/sim/policy_world.h"

namespace turnstile::policy::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Teams of one department with random weights and request shapes, few slots, and an engine that
// gives every running sequence one token a step (a prompt is computed in one step).
class Race {
 public:
  explicit Race(std::uint64_t seed) : random_(seed) {
    PolicySet policy = default_policy_set();
    policy.queue_requests_total = 10'000;
    for (ClassRules& rules : policy.classes) {
      rules.ttft = rules.timeouts.queue_ttl = std::chrono::hours(100);
    }
    policy.departments.push_back({"main", NodeRules{}});
    if (random_.chance(50)) policy.locality_slack_units = slack_ = random_.between(1, 2000);
    engine_.sequence_slots = random_.between(1, 4);
    engine_.kv_blocks = 100'000;
    engine_.max_model_len = 4096;
    engine_.model_name = "engine";
    const std::int64_t teams = random_.between(2, 4);
    std::vector<KeyNode> keys;
    for (std::int64_t i = 0; i < teams; ++i) {
      Runner runner;
      runner.weight = random_.between(1, 4);
      runner.prompt = random_.between(1, 200);
      runner.length = random_.between(1, 60);
      runner.cached = random_.chance(50) ? random_.below(runner.prompt + 1) : 0;
      NodeRules rules;
      rules.weight = runner.weight;
      policy.teams.push_back({"team" + std::to_string(i), 0, rules});
      runner.key = "key" + std::to_string(i);
      KeyNode key;
      key.id = runner.key;
      key.team = policy.teams.back().name;
      keys.push_back(key);
      runners_.push_back(runner);
    }
    admission_ = std::make_unique<Admission>(std::make_shared<const PolicySet>(std::move(policy)),
                                             engine_);
    admission_->set_keys(now_, keys);
  }

  struct Runner {
    std::string key;
    std::int64_t weight = 1;
    std::int64_t prompt = 0;
    std::int64_t length = 0;
    std::int64_t cached = 0;  // a hint that never comes true: the worst for the others
    bool active = true;
    std::int64_t waiting = 0;
    std::int64_t service = 0;  // units delivered

    double normalised() const {
      return static_cast<double>(service) / static_cast<double>(weight);
    }
    // The largest charge that may stand at a time, by weight: U of the bound.
    double largest_charge(std::int64_t slots) const {
      const std::int64_t estimate = std::max<std::int64_t>(length, 64);
      return static_cast<double>(slots * (prompt + 2 * estimate)) / static_cast<double>(weight);
    }
  };

  void step() {
    now_ += milliseconds(10);
    for (Runner& runner : runners_) {
      while (runner.active && runner.waiting < 8) submit(runner);
    }
    std::vector<Outcome> out;
    admission_->dispatch(now_, out);
    for (const Outcome& outcome : out) {
      const auto& started = std::get<Dispatch>(outcome);
      Running& running = running_[started.id];
      running = waiting_.at(started.id);
      waiting_.erase(started.id);
      runners_[running.runner].waiting -= 1;
    }
    for (auto it = running_.begin(); it != running_.end();) {
      auto& [id, running] = *it;
      Runner& runner = runners_[running.runner];
      if (!running.prefilled) {
        running.prefilled = true;
        runner.service += runner.prompt;
        admission_->on_tokens(now_, id, runner.prompt, 0);
      } else if (running.generated < runner.length) {
        running.generated += 1;
        runner.service += 2;
        admission_->on_tokens(now_, id, 0, 1);
      } else {
        admission_->on_ended(now_, id, EndKind::Completed, {runner.prompt, runner.length});
        it = running_.erase(it);
        continue;
      }
      ++it;
    }
  }

  void run(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) step();
  }

  // The two runners that are furthest apart, and the bound for them.
  std::optional<std::string> check_bound(const std::vector<std::int64_t>& service_before) const {
    for (std::size_t a = 0; a < runners_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const auto got = [&](std::size_t i) {
          return static_cast<double>(runners_[i].service - service_before[i]) /
                 static_cast<double>(runners_[i].weight);
        };
        const double bound =
            2 * (std::max(runners_[a].largest_charge(engine_.sequence_slots),
                          runners_[b].largest_charge(engine_.sequence_slots)) +
                 static_cast<double>(slack_));
        if (std::abs(got(a) - got(b)) > bound) {
          return "teams " + std::to_string(a) + " and " + std::to_string(b) + " got " +
                 std::to_string(got(a)) + " and " + std::to_string(got(b)) +
                 " units by weight, more than " + std::to_string(bound) + " apart";
        }
      }
    }
    return std::nullopt;
  }

  std::vector<std::int64_t> services() const {
    std::vector<std::int64_t> services;
    for (const Runner& runner : runners_) services.push_back(runner.service);
    return services;
  }

  std::vector<Runner>& runners() { return runners_; }
  Random& random() { return random_; }

 private:
  struct Running {
    std::size_t runner = 0;
    bool prefilled = false;
    std::int64_t generated = 0;
  };

  void submit(Runner& runner) {
    const RequestId id{++last_id_};
    TokenFacts tokens;
    tokens.prompt_tokens = runner.prompt;
    tokens.max_tokens = 1000;
    tokens.cached_prompt_tokens = runner.cached;
    const auto resolved = admission_->resolve(now_, {runner.key, std::nullopt, std::nullopt});
    const auto queued = admission_->admit(now_, id, *resolved, tokens);
    if (!queued) return;
    runner.waiting += 1;
    waiting_[id] = {static_cast<std::size_t>(&runner - runners_.data()), false, 0};
  }

  Random random_;
  EngineFacts engine_;
  std::int64_t slack_ = 0;
  std::unique_ptr<Admission> admission_;
  Instant now_{};
  std::vector<Runner> runners_;
  std::map<RequestId, Running> waiting_;
  std::map<RequestId, Running> running_;
  std::uint64_t last_id_ = 0;
};

}  // namespace

std::optional<std::string> run_backlogged(std::uint64_t seed) {
  Race race(seed);
  race.run(race.random().between(0, 500));
  for (int window = 0; window < 3; ++window) {
    const auto before = race.services();
    race.run(race.random().between(200, 1500));
    if (auto failure = race.check_bound(before)) return failure;
  }
  return std::nullopt;
}

std::optional<std::string> run_idle_return(std::uint64_t seed) {
  Race race(seed);
  auto& runners = race.runners();
  Race::Runner& silent = runners[static_cast<std::size_t>(
      race.random().below(static_cast<std::int64_t>(runners.size())))];
  if (race.random().chance(50)) race.run(300);
  silent.active = false;
  race.run(race.random().between(500, 3000));
  // Sometimes the others pause as well, so that nobody is there to be lifted to.
  if (race.random().chance(30)) {
    for (Race::Runner& runner : runners) runner.active = false;
    race.run(2500);
    silent.active = true;
    race.run(1);
    for (Race::Runner& runner : runners) runner.active = true;
  }
  silent.active = true;
  race.run(1);
  const auto before = race.services();
  race.run(race.random().between(500, 2000));
  return race.check_bound(before);
}

std::optional<std::string> run_obedient_client(std::uint64_t seed, std::int64_t& retries) {
  Random random(seed);
  World world = make_world(random);
  world.keys.resize(1);
  Admission admission(world.policy, world.engine);
  Instant now{};
  admission.set_keys(now, world.keys);
  std::uint64_t id = 0;
  std::vector<Outcome> out;
  for (int i = 0; i < 60; ++i) {
    now += milliseconds(random.between(0, 50));
    const auto resolved = admission.resolve(now, {world.keys[0].id, std::nullopt, std::nullopt});
    if (!resolved) return std::nullopt;
    TokenFacts tokens;
    tokens.prompt_tokens = random.below(world.engine.max_model_len);
    tokens.max_tokens = random.between(1, 64);
    auto queued = admission.admit(now, RequestId{++id}, *resolved, tokens);
    if (!queued && queued.error().retry_after.has_value()) {
      const RefusalCode code = queued.error().code;
      if (code != RefusalCode::RateRequests && code != RefusalCode::BudgetTokens) {
        return "alone in the system, and refused with " + std::string(to_string(code));
      }
      retries += 1;
      now += *queued.error().retry_after;
      queued = admission.admit(now, RequestId{++id}, *resolved, tokens);
      if (!queued) {
        return "waited as told after " + std::string(to_string(code)) + " and was refused with " +
               std::string(to_string(queued.error().code));
      }
    }
    if (!queued) continue;
    admission.dispatch(now, out);
    const std::int64_t length = random.between(0, queued->max_tokens);
    admission.on_tokens(now, RequestId{id}, tokens.prompt_tokens, length);
    admission.on_ended(now, RequestId{id}, EndKind::Completed, {tokens.prompt_tokens, length});
  }
  return std::nullopt;
}

}  // namespace turnstile::policy::sim
