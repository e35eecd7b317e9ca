// guess_cost.h: what guesses were seen to cost, and whether they may go on.
//
// The learned cost of a step is a line through steps of all sizes. Near the few rows of a decode
// the truth may be far from it: where multiplications are the limit and not memory, the second row
// of a step costs nearly as much as the first. So steps of decodes are also watched by themselves,
// for each number of sequences: how long one takes without guesses, and how much longer each guess
// made it, with the pass of a draft model that made it.
//
// Whatever the estimates say, losses are bounded. In steps of decodes without guesses,
//
//   gain    = tokens / sequences - duration / duration without guesses          of a guessed step
//   balance = what guesses may still lose: grows by 1 % of every step, with gains, to kMostBalance
//
// and guesses stop while the balance is used up, unless they gained of late: reading a text into a
// draft model is a loss at once and a gain later. A full balance pays for a trial of what the
// estimates refuse, because they may be out of date.
//
// A plain value; nothing is allocated. Thread: engine thread.
// Tests:  tests/engine/guess_cost_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace turnstile::engine {

// A step of decodes and nothing else.
struct DecodeStep {
  std::uint32_t sequences = 0;  // 0: it was another step
  std::uint32_t guesses = 0;    // that were verified
  std::uint32_t accepted = 0;   // tokens that the sequences got beyond one each
  double draft_passes = 0.0;    // in the unit of step_cost.h
  std::uint64_t kv_bytes = 0;   // without guesses
  bool has_read = false;        // the draft model read more than the tokens since its last guess
};

class GuessCost {
 public:
  static constexpr std::uint32_t kMostSequences = 64;  // of more, nothing is kept: no guess pays
  static constexpr double kMostBalance = 4.0;
  static constexpr double kBalanceShare = 0.01;
  static constexpr std::uint32_t kPlainFirst = 2;      // steps without guesses before the first
  static constexpr std::uint32_t kPlainEvery = 64;     // and one among so many later
  static constexpr std::uint32_t kTrials = 2;          // steps with one guess before longer drafts

  // `kv_byte_ms`: what a byte of K and V costs (step_cost.h), for steps of unequal depth.
  void observe(const DecodeStep& step, double duration_ms, double kv_byte_ms);

  // Without observations guesses are made as the learned cost of a step says.
  bool is_known() const { return is_known_; }
  bool may_guess(std::uint32_t sequences) const;

  // What one more guess costs, of a step without guesses; nullopt until kTrials steps showed it.
  std::optional<double> guess_share(std::uint32_t sequences) const;

  // Guesses may be tried that seem not to pay.
  bool may_try() const { return balance_ >= kMostBalance; }
  double balance() const { return balance_; }

 private:
  struct Seen {
    double plain_ms = 0.0;  // means
    double plain_kv_bytes = 0.0;
    double guess_share = 0.0;
    std::uint32_t plain_count = 0;  // saturate at kGuessMemory
    std::uint32_t guess_count = 0;
    std::uint32_t since_plain = 0;
  };

  std::array<Seen, kMostSequences + 1> seen_{};
  double balance_ = kMostBalance;
  double gain_ = 0.0;  // of guessed steps of late
  bool is_known_ = false;
};

}  // namespace turnstile::engine
