// Waits that come true: clients that do as they are told, by the code they were refused with.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/policy_plant.h"
#include "tests/sim/policy_setup.h"
#include "tests/sim/policy_world.h"

namespace turnstile::policy::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Crowd {
  RefusalCode code;
  std::string team;     // lines of both teams
  std::string classes;  // tables of classes
  int clients = 0;      // of each of four keys in two teams, in a closed loop
  int think_ms = 0;     // mean pause between two requests of one client
  int demos_per_second = 0;
};

void PrintTo(const Crowd& crowd, std::ostream* out) { *out << to_string(crowd.code); }

class Obedient : public ::testing::TestWithParam<Crowd> {};

// Every client waits as told and comes back with its ticket. At least 95 of 100 are let in then.
TEST_P(Obedient, IsAdmittedAtItsFirstRetry) {
  const Crowd& crowd = GetParam();
  std::int64_t retries = 0;
  std::int64_t admitted = 0;
  std::int64_t without_ticket = 0;
  std::int64_t units = 0;
  double waited_s = 0;
  std::map<std::string, std::int64_t> again;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    Random random(seed);
    const std::vector<KeyNode> keys = {key_of("a", "red"), key_of("b", "red"),
                                       key_of("c", "blue"), key_of("d", "blue"),
                                       key_of("show", "stage")};
    Plant plant(policy_of("schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\n" + crowd.team +
                          "\n[teams.blue]\ndept = \"main\"\n" + crowd.team +
                          "\n[teams.stage]\ndept = \"main\"\n" + crowd.classes),
                engine_of(16), keys);
    const auto fresh = [&](const std::string& key) {
      PlantRequest request;
      request.key = key;
      request.prompt = random.between(20, 200);
      request.length = random.between(10, 120);
      request.max_tokens = 200;
      request.arrival = plant.now() + random_gap(random, crowd.think_ms);
      return request;
    };
    plant.on_end = [&](const PlantResult& result) {
      const PlantRequest& was = result.request;
      if (was.key == "show") return;
      if (was.attempt == 1 && was.first_code == crowd.code) {
        retries += 1;
        admitted += result.refused ? 0 : 1;
        if (result.refused) again[std::string(to_string(*result.refused))] += 1;
      }
      if (!result.refused) return plant.submit(fresh(was.key));
      ASSERT_TRUE(result.retry_after) << to_string(*result.refused);
      PlantRequest next = was;
      if (was.attempt == 0) {
        next.first_code = *result.refused;
        without_ticket += result.ticket ? 0 : 1;
        waited_s += static_cast<double>(result.retry_after->count()) / 1e9;
      }
      next.attempt = was.attempt + 1;
      next.ticket = result.ticket;
      next.arrival = plant.now() + *result.retry_after + milliseconds(random.between(0, 1000));
      plant.submit(std::move(next));
    };
    for (const char* key : {"a", "b", "c", "d"}) {
      for (int i = 0; i < crowd.clients; ++i) plant.submit(fresh(key));
    }
    for (int i = 0; i < crowd.demos_per_second * 90; ++i) {
      PlantRequest demo = fresh("show");
      demo.class_name = "demo";
      demo.arrival = Instant{} + milliseconds(random.below(90'000));
      plant.submit(std::move(demo));
    }
    plant.run(Instant{} + seconds(90));
    ASSERT_FALSE(plant.failure()) << *plant.failure();
    units += plant.units() / 180;
  }
  const double share = static_cast<double>(admitted) / static_cast<double>(retries);
  std::cout << to_string(crowd.code) << ": " << admitted << " of " << retries << " ("
            << 100 * share << " %), " << without_ticket << " without a ticket, mean wait "
            << waited_s / static_cast<double>(retries) << " s, " << units << " units a second";
  for (const auto& [code, count] : again) std::cout << ", again " << code << " " << count;
  std::cout << "\n";
  EXPECT_GE(retries, 100);
  EXPECT_GE(share, 0.95);
}

INSTANTIATE_TEST_SUITE_P(
    Codes, Obedient,
    ::testing::Values(
        Crowd{RefusalCode::RateRequests, "requests_per_minute = 240\nbucket_fraction = 0.1", "",
              8, 2000, 0},
        Crowd{RefusalCode::BudgetTokens, "tokens_per_minute = 40_000\nbucket_fraction = 0.1", "", 8,
              2000, 0},
        Crowd{RefusalCode::QueueFull, "queue_requests = 12",
              "[classes.interactive]\nqueue_ttl = \"1h\"\n", 16, 300, 0},
        Crowd{RefusalCode::WouldMissDeadline, "", "[classes.interactive]\nttft = \"2s\"\n", 24, 300,
              0},
        Crowd{RefusalCode::QueueDeadline, "",
              "[classes.interactive]\nqueue_ttl = \"1500ms\"\nallow_late = true\n", 24, 300, 0},
        Crowd{RefusalCode::Displaced, "",
              "[defaults]\nqueue_requests_total = 30\n"
              "[classes.interactive]\nqueue_ttl = \"1h\"\nwatermark = 0.9\n"
              "[classes.demo]\nqueue_ttl = \"1h\"\ncan_preempt = false\n",
              12, 200, 10}),
    [](const auto& instance) { return std::string(to_string(instance.param.code)); });

}  // namespace
}  // namespace turnstile::policy::sim
