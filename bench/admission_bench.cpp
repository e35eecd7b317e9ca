// admission_bench.cpp: what one decision of policy costs with 200 teams, 2,000 keys, 1,000 waiting
// and 32 running requests.
//
//   arrival      Admission::admit() of a request that has to wait, predicted first token included
//   resolve      Admission::resolve()
//   pick         Admission::dispatch() that starts one request out of the queue
//   end          Admission::on_ended()
//   tokens       on_tokens() for the 32 running requests and on_step(): one engine step
//
// Prints median, 99th percentile and allocations of each. Every call is timed alone, so each figure
// includes about 20 ns of clock. Fails when an arrival or a pick allocates.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "policy/admission.h"
#include "policy/policy_file.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace turnstile::policy {
namespace {

constexpr int kTeams = 200;
constexpr int kKeysOfTeam = 10;
constexpr int kWaiting = 1000;
constexpr int kRunning = 32;
constexpr int kRounds = 20'000;

class Stage {
 public:
  explicit Stage(const char* name) : name_(name) { times_ns_.reserve(kRounds); }

  template <typename Work>
  void time(Work work) {
    const std::size_t before = allocations;
    const auto began = std::chrono::steady_clock::now();
    work();
    const auto took = std::chrono::steady_clock::now() - began;
    allocated_ += allocations - before;
    if (times_ns_.size() >= kRounds / 2) allocated_late_ += allocations - before;
    times_ns_.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }

  // In the second half, when every key was seen.
  std::size_t allocated_late() const { return allocated_late_; }

  void print() {
    std::ranges::sort(times_ns_);
    const auto at = [&](double q) {
      return times_ns_[static_cast<std::size_t>(q * static_cast<double>(times_ns_.size() - 1))];
    };
    std::printf("%-8s p50 %6lld ns   p99 %6lld ns   %5.2f allocations\n", name_,
                static_cast<long long>(at(0.5)), static_cast<long long>(at(0.99)),
                static_cast<double>(allocated_) / static_cast<double>(times_ns_.size()));
  }

 private:
  const char* name_;
  std::vector<std::int64_t> times_ns_;
  std::size_t allocated_ = 0;
  std::size_t allocated_late_ = 0;
};

std::string policy_text() {
  std::string text =
      "schema = 1\n[defaults]\nqueue_requests_total = 2000\ntokens_per_minute = \"100M\"\n"
      "requests_per_minute = \"10M\"\ninflight = 30\n[classes.interactive]\nqueue_ttl = \"1h\"\n";
  for (int d = 0; d < 10; ++d) text += "[depts.d" + std::to_string(d) + "]\n";
  for (int t = 0; t < kTeams; ++t) {
    text += "[teams.t" + std::to_string(t) + "]\ndept = \"d" + std::to_string(t % 10) + "\"\n";
  }
  return text;
}

int run() {
  PolicyFileInput input;
  const std::string text = policy_text();
  input.text = text;
  input.file_name = "bench.toml";
  input.revision = "r1-00000000";
  const PolicyFileResult policy = read_policy(input);
  if (!policy.policy) return 1;
  EngineFacts engine;
  engine.kv_blocks = 100'000;
  engine.sequence_slots = 34;  // 95 % of them are interactive's
  engine.max_model_len = 2048;
  engine.model_name = "engine";
  Admission admission(policy.policy, engine);
  std::vector<KeyNode> keys;
  for (int k = 0; k < kTeams * kKeysOfTeam; ++k) {
    KeyNode key;
    key.id = "k" + std::to_string(k);
    key.team = "t" + std::to_string(k % kTeams);
    keys.push_back(key);
  }
  Instant now{};
  admission.set_keys(now, keys);

  Stage resolve("resolve"), arrival("arrival"), pick("pick"), end("end"), tokens("tokens");
  std::deque<RequestId> running;
  std::vector<Outcome> out;
  std::uint64_t id = 0;
  std::uint64_t random = 1;
  const auto take = [&] {
    for (const Outcome& outcome : out) {
      if (const auto* start = std::get_if<Dispatch>(&outcome)) running.push_back(start->id);
    }
    out.clear();
  };
  for (int round = 0; round < kRounds + kWaiting + kRunning; ++round) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    now += std::chrono::microseconds(500);
    const KeyNode& key = keys[(random >> 33) % keys.size()];
    std::optional<Resolved> resolved;
    const bool warm = round >= kWaiting + kRunning;
    const auto run_stage = [&](Stage& stage, auto work) {
      if (warm) {
        stage.time(work);
      } else {
        work();
      }
    };
    run_stage(resolve, [&] {
      resolved = *admission.resolve(now, {key.id, std::nullopt, std::nullopt});
    });
    TokenFacts facts;
    facts.prompt_tokens = 50 + static_cast<std::int64_t>((random >> 40) % 100);
    facts.max_tokens = 100;
    bool queued = false;
    run_stage(arrival, [&] {
      queued = admission.admit(now, RequestId{++id}, *resolved, facts).has_value();
    });
    if (!queued) return 2;
    if (warm) {
      const RequestId first = running.front();
      running.pop_front();
      end.time([&] { admission.on_ended(now, first, EndKind::Completed, {50, 40}); });
    }
    run_stage(pick, [&] { admission.dispatch(now, out); });
    take();
    run_stage(tokens, [&] {
      for (const RequestId one : running) admission.on_tokens(now, one, 0, 1);
      admission.on_step(now, std::chrono::milliseconds(10));
    });
  }
  std::printf("%lld waiting, %lld running\n", static_cast<long long>(admission.queued()),
              static_cast<long long>(admission.running()));
  for (Stage* stage : {&resolve, &arrival, &pick, &end, &tokens}) stage->print();
  return arrival.allocated_late() + pick.allocated_late() == 0 ? 0 : 3;
}

}  // namespace
}  // namespace turnstile::policy

int main() { return turnstile::policy::run(); }
