// draft_length.h: how many guesses of a sequence are worth their rows.
//
// A step that yields E tokens in T ms may take one more row, for m ms, if that raises tokens a
// second: if the row brings a token with a chance of more than E * m / T. With one stream a row is
// cheap beside the step (reading the weights), so unlikely guesses pay; with many streams E * m / T
// goes to 1 and no guess pays. That is the whole rule; T and m are the learned cost of a step,
// m without the KV bytes: the rows of one sequence read its keys and values together.
//
//   chance of guess i = acceptance^i       (acceptance.h)
//
// Thread: pure values. Tests: tests/engine/draft_length_test.cpp.
#pragma once

#include <cstdint>

#include "engine/step_cost.h"

namespace turnstile::engine {

class DraftLength {
 public:
  // `work` is planned and yields `tokens`; nothing learned yet: a step costs as much as it does on
  // common machines, where six more rows double it.
  DraftLength(const StepCost& cost, const StepWork& work, std::uint32_t tokens);

  // False when even a sure guess would lower the throughput.
  bool can_pay() const { return chance_needed() < 1.0; }

  // The best number of guesses, at most `most`, for one more sequence.
  std::uint32_t choose(float acceptance, std::uint32_t most) const;

  // So many guesses were planned.
  void take(float acceptance, std::uint32_t guesses);

 private:
  double chance_needed() const;

  double row_ms_;
  double step_ms_;
  double tokens_;
};

}  // namespace turnstile::engine
