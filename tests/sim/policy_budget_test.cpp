// Budgets and cache under load: the policy core in front of a model of an engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/policy_plant.h"
#include "tests/sim/policy_setup.h"
#include "tests/sim/policy_world.h"
#include "tests/support/repeats.h"

namespace turnstile::policy::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kContext = 1024;

std::vector<KeyNode> one_key() { return {key_of("anna", "lab")}; }

constexpr std::int64_t kPerMinute = 60'000;
constexpr std::int64_t kBucket = kPerMinute / 4;
constexpr std::int64_t kMaxTokens = 200;
constexpr std::int64_t kInflight = 16;

struct Spent {
  std::int64_t worst_overshoot = 0;  // over all intervals from the start
  std::int64_t cut = 0;              // answers ended before they were done
  std::int64_t answers = 0;
};

// Forty clients ask again and again for two minutes (half of one under the address sanitizer), ten
// times a second when they are refused.
Spent run_forty(const std::string& charge, bool greedy) {
  Random random(greedy ? 2 : 1);
  Plant plant(policy_of("schema = 1\n[defaults]\nqueue_requests = 100\n[depts.main]\n[teams.lab]\n"
                        "dept = \"main\"\ninflight = " + std::to_string(kInflight) +
                        "\ntokens_per_minute = " + std::to_string(kPerMinute) + "\ncharge = \"" +
                        charge + "\"\n"),
              engine_of(32, 4000, kContext), one_key());
  Spent spent;
  std::int64_t total = 0;
  const auto ask = [&] {
    PlantRequest request;
    request.key = "anna";
    request.prompt = random.between(10, 100);
    request.max_tokens = kMaxTokens;
    request.length = greedy ? kMaxTokens : random.between(5, 80);
    request.arrival = plant.now();
    return request;
  };
  plant.on_end = [&](const PlantResult& result) {
    PlantRequest next = ask();
    if (result.refused) {
      next.arrival += milliseconds(100);
    } else {
      spent.answers += 1;
      spent.cut += result.generated < (greedy ? kMaxTokens : 5) ? 1 : 0;
      total += result.charged;
      const auto ms = std::chrono::duration_cast<milliseconds>(plant.now() - Instant{}).count();
      spent.worst_overshoot =
          std::max(spent.worst_overshoot, total - kBucket - kPerMinute * ms / 60'000);
    }
    plant.submit(std::move(next));
  };
  for (int i = 0; i < 40; ++i) plant.submit(ask());
  plant.run(Instant{} + seconds(tests::kAddressSanitizer ? 30 : 120));
  EXPECT_FALSE(plant.failure());
  return spent;
}

TEST(PolicyBudget, FortyParallelClientsStayWithinTheBoundOfEachCharge) {
  for (const char* charge : {"max", "live", "hard"}) {
    for (const bool greedy : {false, true}) {
      const Spent spent = run_forty(charge, greedy);
      std::cout << charge << (greedy ? ", greedy: " : ", honest: ") << spent.answers
                << " answers, " << spent.cut << " cut, overshoot " << spent.worst_overshoot << "\n";
      EXPECT_GT(spent.answers, 100);
      EXPECT_TRUE(spent.cut == 0 || std::string(charge) == "hard") << charge;
      const std::int64_t bound = std::string(charge) == "live" ? kInflight * (kMaxTokens - 1) : 0;
      EXPECT_LE(spent.worst_overshoot, bound) << charge << greedy;
    }
  }
}

// What can never fit is refused as such; what fits exactly is served, alone if need be.
TEST(PolicyCache, NeverFitIsRefusedAndBarelyFitIsServed) {
  for (const std::int64_t prompt : {std::int64_t{312}, std::int64_t{313}}) {
    Plant plant(policy_of("schema = 1\n[depts.main]\n[teams.lab]\ndept = \"main\"\n"
                          "[classes.interactive]\nwatermark = 1\nlength_quantile = 1\n"
                          "[classes.standard]\nwatermark = 1\n"),
                engine_of(8, 32, kContext), one_key());
    PlantRequest big;
    big.key = "anna";
    big.prompt = prompt;  // and 200 more: 512 positions are the whole cache
    big.max_tokens = big.length = 200;
    for (int i = 0; i < 20; ++i) {
      PlantRequest small = big;
      small.prompt = 20;
      small.max_tokens = small.length = 30;
      plant.submit(small);
      if (i == 10) plant.submit(big);
    }
    plant.run();
    ASSERT_FALSE(plant.failure()) << *plant.failure();
    for (const PlantResult& result : plant.results()) {
      const bool fits = result.request.prompt <= 312;
      const auto expected =
          fits ? std::nullopt : std::optional(RefusalCode::ContextLengthExceeded);
      EXPECT_EQ(result.refused, expected);
    }
  }
}

// A little less cache costs a little time, not a cliff.
TEST(PolicyCache, LessCacheIsNoCliff) {
  const auto p99_ms = [](std::int64_t blocks) {
    Random random(4);
    Plant plant(policy_of("schema = 1\n[defaults]\nqueue_requests_total = 1000\nqueue_requests ="
                          " 1000\n[depts.main]\n[teams.lab]\ndept = \"main\"\n"
                          "[classes.interactive]\nqueue_ttl = \"1h\"\n"),
                engine_of(64, blocks, kContext), one_key());
    for (int i = 0; i < 1200; ++i) {
      PlantRequest request;
      request.key = "anna";
      request.prompt = random.between(50, 300);
      request.length = random.between(10, 150);
      request.max_tokens = 200;
      request.arrival = Instant{} + milliseconds(random.below(60'000));
      plant.submit(request);
    }
    plant.run();
    EXPECT_FALSE(plant.failure());
    std::vector<std::int64_t> waits;
    for (const PlantResult& result : plant.results()) {
      waits.push_back(std::chrono::duration_cast<milliseconds>(*result.first_token -
                                                               result.request.arrival).count());
    }
    std::ranges::sort(waits);
    return waits[waits.size() * 99 / 100];
  };
  const std::int64_t with_all = p99_ms(400);
  const std::int64_t with_less = p99_ms(382);
  std::cout << "first token p99 " << with_all << " ms with 400 blocks, " << with_less
            << " ms with 382\n";
  EXPECT_LE(with_less, with_all * 3 / 2 + 100);
}

}  // namespace
}  // namespace turnstile::policy::sim
