// draft_length.h: how many guesses of a sequence are worth their rows.
//
// A step that yields E tokens in T ms may take one more row, for m ms, if that raises tokens a
// second: if the row brings a token with a chance of more than E * m / T. With one stream a row is
// cheap beside the step (reading the weights), so unlikely guesses pay; with many streams E * m / T
// goes to 1 and no guess pays. That is the whole rule; T and m are the learned cost of a step,
// m without the KV bytes: the rows of one sequence read its keys and values together.
//
//   chance of guess i = product of the chances of guesses 0 .. i       (acceptance.h)
//
// Where guesses come from a draft model, m includes a sequence's share of the pass that makes one.
// Where steps with guesses were watched, m is what they showed (guess_cost.h).
//
// Thread: pure values. Tests: tests/engine/draft_length_test.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/acceptance.h"
#include "engine/step_cost.h"

namespace turnstile::engine {

// How likely each guess of a draft comes true if those before it do.
struct GuessChances {
  GuessChances(const Acceptance& acceptance, std::uint32_t first_so_many_are_sure)
      : sure(acceptance.of(true)), other(acceptance.of(false)),
        sure_guesses(first_so_many_are_sure) {}
  // Of guesses that are still to be made.
  explicit GuessChances(const Acceptance& acceptance)
      : sure(acceptance.expected()), other(acceptance.expected()), sure_guesses(0) {}

  double of(std::uint32_t guess) const {
    return static_cast<double>(guess < sure_guesses ? sure : other);
  }

  float sure;
  float other;
  std::uint32_t sure_guesses;
};

class DraftLength {
 public:
  // `work` is planned and yields `tokens`; nothing learned yet: a step costs as much as it does on
  // common machines, where six more rows double it. `sharing`: sequences that share the passes of a
  // draft model which are still to be made; 0: the guesses are there. `guess_share`: what a guess
  // costs in all, of the step, if that was seen.
  DraftLength(const StepCost& cost, const StepWork& work, std::uint32_t tokens,
              std::uint32_t sharing = 0, std::optional<double> guess_share = std::nullopt);

  // False when even a sure guess would lower the throughput.
  bool can_pay() const { return chance_needed() < 1.0; }

  // The best number of guesses, at most `most`, for one more sequence.
  std::uint32_t choose(const GuessChances& chances, std::uint32_t most) const;

  // So many guesses were planned.
  void take(const GuessChances& chances, std::uint32_t guesses);

 private:
  double chance_needed() const;

  double margin_;  // a guess must be worth so much more than its row
  double row_ms_;
  double draft_ms_ = 0.0;  // that making a guess takes
  double step_ms_;
  double tokens_;
};

}  // namespace turnstile::engine
