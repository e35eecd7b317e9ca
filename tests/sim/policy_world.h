// policy_world.h: random policies, keys and engines for the policy simulator, from one seed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/facts.h"
#include "policy/key_node.h"
#include "policy/policy_set.h"

namespace turnstile::policy::sim {

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): the same numbers on every platform, which the
// distributions of the standard library do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(end));
  }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + below(most - least + 1);
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

struct World {
  std::shared_ptr<const PolicySet> policy;
  EngineFacts engine;
  std::vector<KeyNode> keys;
  std::vector<KeyNode> gone_keys;
  std::int64_t last_key = 100;
};

World make_world(Random& random);

// A key of some team with random limits; `index` makes its id.
KeyNode make_key(Random& random, const PolicySet& policy, std::int64_t index);

// One key goes, comes back (perhaps in another team), is new, or changes its limits or its team.
// Its id, when it was there before; else empty.
std::string change_a_key(Random& random, World& world);

// How much a request asks for.
TokenFacts make_tokens(Random& random, const EngineFacts& engine);

}  // namespace turnstile::policy::sim
