// ngram_drafter.h: guesses that a text goes on as it did the last time it looked like this.
//
//   ... for (int i = 0; i < n; ++i) { a[i] = 0; }  for (int i = 0; |
//       ^^^^^^^^^^^^^^^^ earlier      guess: i < n   ^^^^^^^^^^^^^^ suffix
//
// The longest suffix of at most prompt_lookup_max and at least prompt_lookup_min tokens that occurs
// earlier in prompt or completion; of equally long ones the latest, as lists and code drift. What
// followed it there is the guess, a sure one if the suffix has the full length. Source: Saxena,
// "Prompt Lookup Decoding", 2023.
//
// Thread: engine thread; no state. Cost: one pass over the known tokens, about a nanosecond each;
// no allocation. Tests: tests/engine/ngram_drafter_test.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "engine/drafter.h"
#include "engine/limits.h"

namespace turnstile::engine {

struct Continuation {
  std::size_t begin = 0;   // in the tokens; their size if no suffix occurs earlier
  std::size_t length = 0;  // of the suffix
};
Continuation find_continuation(std::span<const TokenId> tokens, std::uint32_t shortest,
                               std::uint32_t longest);

class NgramDrafter final : public Drafter {
 public:
  explicit NgramDrafter(const SpeculationLimits& limits) : limits_(limits) {}

  double propose(std::span<Sequence* const> sequences) override;
  void forget(const Sequence&) override {}
  bool is_free() const override { return true; }
  void check_invariants() const override {}

 private:
  SpeculationLimits limits_;
};

}  // namespace turnstile::engine
