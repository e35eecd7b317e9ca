// draft_length.h: how many guesses of a sequence are worth their rows.
//
// A step that yields E tokens in T ms may take one more row, for m ms, if that raises tokens a
// second: if the row brings a token with a chance of more than E * m / T. With one stream a row is
// cheap beside the step (reading the weights), so unlikely guesses pay; with many streams E * m / T
// goes to 1 and no guess pays. That is the whole rule; T and m are the learned cost of a step.
//
//   chance of guess i = acceptance^i       acceptance: share of guesses of this sequence that came
//                                          true of late, judged also for the one beyond the last
//                                          row, which costs nothing to know
//
// Thread: pure values. Tests: tests/engine/draft_length_test.cpp.
#pragma once

#include <cstdint>

#include "engine/step_cost.h"

namespace turnstile::engine {

inline constexpr float kFirstAcceptance = 0.5F;

// After a guess came true or not.
void judge_guess(bool came_true, float& acceptance);

class DraftLength {
 public:
  // `work` is planned and yields `tokens`; nothing learned yet: a step costs as much as it does on
  // common machines, where six more rows double it.
  DraftLength(const StepCost& cost, const StepWork& work, std::uint32_t tokens);

  // False when even a sure guess would lower the throughput.
  bool can_pay() const { return chance_needed() < 1.0; }

  // The best number of guesses, at most `most`, for a sequence at `position`.
  std::uint32_t choose(float acceptance, std::uint32_t most, std::uint32_t position,
                       std::uint64_t kv_position_bytes) const;

  // So many guesses were planned.
  void take(float acceptance, std::uint32_t guesses, std::uint32_t position,
            std::uint64_t kv_position_bytes);

 private:
  double chance_needed() const;
  double row_ms(std::uint32_t position, std::uint64_t kv_position_bytes) const;

  StepCost::Terms terms_;
  double step_ms_;
  double tokens_;
};

}  // namespace turnstile::engine
