// policy_setup.h: the policies, engines, keys and times of experiments with the plant.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>

#include "policy/policy_file.h"
#include "tests/sim/policy_world.h"

namespace turnstile::policy::sim {

// The policy of a text; nullptr, with a failure for each error, when it is none.
inline std::shared_ptr<const PolicySet> policy_of(const std::string& text) {
  PolicyFileInput input;
  input.text = text;
  input.file_name = "test.toml";
  input.revision = "r1-00000000";
  const PolicyFileResult result = read_policy(input);
  for (const PolicyFileNote& note : result.errors) ADD_FAILURE() << format_error(note);
  return result.policy;
}

inline EngineFacts engine_of(std::int64_t slots, std::int64_t blocks = 4000,
                             std::int64_t max_model_len = 4096) {
  EngineFacts engine;
  engine.kv_blocks = blocks;
  engine.sequence_slots = slots;
  engine.max_model_len = max_model_len;
  engine.model_name = "engine";
  return engine;
}

inline KeyNode key_of(const std::string& id, const std::string& team) {
  KeyNode key;
  key.id = id;
  key.team = team;
  return key;
}

// Exponentially distributed: the gaps of a Poisson process.
inline Duration random_gap(Random& random, double mean_ms) {
  const double u = (static_cast<double>(random.below(1'000'000)) + 1) / 1'000'001.0;
  return std::chrono::microseconds(static_cast<std::int64_t>(-std::log(u) * mean_ms * 1e3));
}

}  // namespace turnstile::policy::sim
