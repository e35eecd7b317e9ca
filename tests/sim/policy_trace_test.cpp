// Recorded arrivals through the real policy core in virtual time. Prints, for each trace, the pair
// that belongs together (attainment of the admitted and refusals by reason), the fairness between
// teams and how far predictions were off.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/policy_plant.h"
#include "tests/sim/policy_setup.h"

namespace turnstile::policy::sim {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Arrival {
  std::int64_t at_ms = 0;
  std::int64_t prompt = 0;
  std::int64_t length = 0;
};

std::vector<Arrival> read_trace(const std::string& name) {
  std::ifstream file(std::string(TURNSTILE_SOURCE_ROOT) + "/tests/traces/" + name);
  std::vector<Arrival> arrivals;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    Arrival arrival;
    if (std::sscanf(line.c_str(), "%ld,%ld,%ld", &arrival.at_ms, &arrival.prompt,
                    &arrival.length) == 3) {
      arrivals.push_back(arrival);
    }
  }
  return arrivals;
}

struct Scale {
  std::string trace;
  double time = 1;     // arrivals are stretched by it
  double prompt = 1;   // lengths are multiplied by it
  double length = 1;
};

std::int64_t scaled(std::int64_t value, double by, std::int64_t most) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(value) * by), 1,
                                  most);
}

class PolicyTrace : public ::testing::TestWithParam<Scale> {};

TEST_P(PolicyTrace, AdmittedRequestsMeetTheirTargets) {
  const Scale& scale = GetParam();
  const std::vector<Arrival> arrivals = read_trace(scale.trace);
  ASSERT_GT(arrivals.size(), 1000u);
  const auto policy = policy_of(R"(
schema = 1
[defaults]
queue_requests_total = 2000
queue_requests = 500
[classes.interactive]
ttft = "3s"
[depts.main]
[teams.a]
dept = "main"
[teams.b]
dept = "main"
[teams.c]
dept = "main"
[teams.d]
dept = "main"
)");
  std::vector<KeyNode> keys;
  for (const char* team : {"a", "b", "c", "d"}) keys.push_back(key_of(team, team));
  Plant plant(policy, engine_of(32), keys);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    PlantRequest request;
    request.arrival = Instant{} + milliseconds(static_cast<std::int64_t>(
                                      static_cast<double>(arrivals[i].at_ms) * scale.time));
    request.key = keys[i % keys.size()].id;
    request.class_name = i % 4 == 3 ? "batch" : "interactive";
    request.prompt = scaled(arrivals[i].prompt, scale.prompt, 2000);
    request.length = scaled(arrivals[i].length, scale.length, 1000);
    request.max_tokens = 1000;
    plant.submit(request);
  }
  plant.run();
  ASSERT_FALSE(plant.failure()) << *plant.failure();
  ASSERT_EQ(plant.results().size(), arrivals.size()) << "every request ends once";

  std::int64_t offered = 0, admitted = 0, good = 0, within = 0, predicted = 0;
  std::map<std::string, std::int64_t> refused;
  for (const PlantResult& result : plant.results()) {
    if (result.request.class_name != "interactive") continue;
    offered += 1;
    if (result.refused) {
      refused[std::string(to_string(*result.refused))] += 1;
      continue;
    }
    admitted += 1;
    const Duration ttft = *result.first_token - result.request.arrival;
    good += ttft <= seconds(3) ? 1 : 0;
    if (!result.predicted) continue;
    predicted += 1;
    within += ttft <= *result.predicted * 3 / 2 + milliseconds(100) ? 1 : 0;
  }
  double sum = 0, squares = 0;
  for (const KeyNode& key : keys) {
    const auto units = static_cast<double>(plant.units_of_key(key.id));
    sum += units;
    squares += units * units;
  }
  const double jain = sum * sum / (static_cast<double>(keys.size()) * squares);
  const auto percent = [](std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  std::printf("%s: interactive offered %ld, good of admitted %.1f %%, good of offered %.1f %%",
              scale.trace.c_str(), offered, percent(good, admitted), percent(good, offered));
  for (const auto& [code, count] : refused) {
    std::printf(", %s %.1f %%", code.c_str(), percent(count, offered));
  }
  std::printf(", Jain %.3f, first token within 1.5 x prediction %.1f %% of %ld\n", jain,
              percent(within, predicted), predicted);
  EXPECT_GE(percent(good, admitted), 90.0);
  EXPECT_GE(jain, 0.9);
}

// Scaled to about one and a half times what the model of an engine can do in busy minutes.
INSTANTIATE_TEST_SUITE_P(
    Slices, PolicyTrace,
    ::testing::Values(Scale{"azure_llm_2023_conv.csv", 0.25, 0.15, 0.5},
                      Scale{"azure_llm_2023_code.csv", 0.5, 0.15, 1},
                      Scale{"mooncake_conversation.csv", 0.25, 0.02, 0.2}),
    [](const auto& instance) {
      const std::string& name = instance.param.trace;
      return name.substr(0, name.find('.'));
    });

}  // namespace
}  // namespace turnstile::policy::sim
