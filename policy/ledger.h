// ledger.h: what one request owes: to the token budgets on its path and to the fair shares.
//
// One rule: reserve, then use, then settle. Each line says what it should stand at for a given use,
// and the difference is taken or given. So a reservation, a token beyond the estimate, a cached
// prefix and the end are the same operation with other numbers, and no amount can be given back
// twice: what a line gives is what it had taken.
//
//   budget, charge "live":  prompt + max(estimate, generated)      estimate = n * expected length,
//   budget, charge "max":   prompt + n * max_tokens                cut to what a full bucket holds
//                                                                 above the class's floor
//   budget, charge "hard":  prompt + quanta of 64 tokens a choice, one ahead of what is generated
//   budget at the end:      prompt computed + cached * cached_weight + generated
//   shares while running:   (prompt - cached) + 2 * max(estimate, generated)
//   shares at the end:      prompt computed + 2 * generated
//   after an engine fault:  nothing
//
// "hard": a quantum is taken only where it leaves no debt. When the next one is not to be had the
// answer ends with the last token that is paid: exhausted(). What the engine has computed beyond it
// by then is charged to nobody.
//
// Overshoot of a budget: "max" and "hard" none; "live" at most (max_tokens - expected length) per
// choice and running request, visible as debt at once, so that nothing new is admitted until it is
// earned back.
//
// Thread:    I/O thread only. Lifetime: buckets and tree outlive it; close() or abandon() is called
//            exactly once after open_budgets().
// Cost:      O(path) per call, no allocation but in close().
// Tests:     tests/policy/ledger_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "policy/bucket.h"
#include "policy/instant.h"
#include "policy/outcome.h"
#include "policy/policy_set.h"
#include "policy/request_size.h"
#include "policy/share_tree.h"

namespace turnstile::policy {

// Service units of one token: prefill of one, decode of one (VTC's w_p and w_q).
inline constexpr std::int64_t kUnitsPerPromptToken = 1;
inline constexpr std::int64_t kUnitsPerGeneratedToken = 2;

// What charge "hard" reserves at a time for each choice, and how far ahead of the answer.
inline constexpr std::int64_t kHardQuantum = 64;
inline constexpr std::int64_t kHardAhead = 16;

// A token budget on the path with the settings of the node that owns it.
struct Budget {
  Bucket* bucket = nullptr;
  Charge charge = Charge::Live;
  std::int64_t cached_weight_milli = 1000;
  std::int64_t floor = 0;  // of the bucket's capacity: kept for classes above the request's
};

// What a new request would reserve of the budget.
std::int64_t budget_reservation(const Budget& budget, const RequestSize& size,
                                std::int64_t estimated_completion_tokens);

// False when not even the smallest reservation fits a full bucket: the request can never be served.
bool budget_feasible(const Budget& budget, const RequestSize& size,
                     std::int64_t estimated_completion_tokens);

class Ledger {
 public:
  static constexpr std::size_t kMaxBudgets = 3;  // key, team, department

  // Reserves on every budget. Feasibility and room were checked by the caller.
  void open_budgets(Instant now, std::span<const Budget> budgets, const RequestSize& size,
                    std::int64_t estimated_completion_tokens);
  // At dispatch: charges the shares with the estimate.
  void open_share(ShareTree& tree, ShareTree::NodeIndex leaf, ClassIndex class_index);

  void on_cached(Instant now, ShareTree& tree, std::int64_t cached_prompt_tokens);
  void on_generated(Instant now, ShareTree& tree, std::int64_t tokens);

  // The end: moves every line to the actual use and settles it. `charged` false: to zero (fault).
  Settlement close(Instant now, ShareTree& tree, std::int64_t prompt_tokens_computed,
                   std::int64_t generated_tokens, bool charged);
  // Gives everything back: the request was never dispatched.
  void abandon(Instant now);

  struct Line {
    Budget budget;
    std::int64_t reserved = 0;  // at open_budgets()
    std::int64_t estimate = 0;  // completion tokens assumed by this line
    std::int64_t debited = 0;   // what the bucket has given to this request so far
  };
  std::span<const Line> lines() const { return {lines_.data(), count_}; }
  std::int64_t estimated_completion_tokens() const { return estimate_; }
  std::int64_t generated_tokens() const { return generated_; }
  std::int64_t share_units() const { return share_.units; }
  // A budget that is charged "hard" has paid its last token.
  bool exhausted() const;
  // What the shares were charged with at dispatch.
  std::int64_t estimated_share_units() const {
    return kUnitsPerPromptToken * prompt_ + kUnitsPerGeneratedToken * estimate_;
  }

 private:
  void move_line(Instant now, Line& line, std::int64_t target);
  void top_up(Instant now, Line& line);
  void refresh(Instant now, ShareTree& tree);

  std::array<Line, kMaxBudgets> lines_{};
  std::size_t count_ = 0;
  ShareTree::Charge share_;
  bool share_open_ = false;
  std::int64_t prompt_ = 0;
  std::int64_t max_completion_ = 0;
  std::int64_t choices_ = 1;
  std::int64_t estimate_ = 0;
  std::int64_t cached_ = 0;
  std::int64_t generated_ = 0;
};

}  // namespace turnstile::policy
