#include "policy/ledger.h"

#include <algorithm>
#include <cassert>

namespace turnstile::policy {
namespace {

// What `cached` tokens cost a budget; rounded up, so that a weight above zero never rounds to free.
std::int64_t cached_cost(std::int64_t cached, std::int64_t weight_milli) {
  return (cached * weight_milli + 999) / 1000;
}

// Completion tokens that a live reservation assumes: the estimate, but never more than a full
// bucket holds beside the prompt and above the floor. An estimate learned from long answers must
// not shut a small budget.
std::int64_t live_estimate(const Budget& budget, const RequestSize& size, std::int64_t estimate) {
  const auto& limit = budget.bucket->limit();
  if (!limit) return estimate;
  const std::int64_t beside_prompt = limit->capacity - budget.floor - size.prompt_tokens;
  return std::min(estimate, std::max(size.choices, beside_prompt));
}

}  // namespace

std::int64_t budget_reservation(const Budget& budget, const RequestSize& size,
                                std::int64_t estimated_completion_tokens) {
  switch (budget.charge) {
    case Charge::Max: return size.prompt_tokens + size.max_completion_tokens();
    case Charge::Live:
      return size.prompt_tokens + live_estimate(budget, size, estimated_completion_tokens);
    case Charge::Hard:
      return size.prompt_tokens +
             std::min(size.choices * kHardQuantum, size.max_completion_tokens());
  }
  assert(false && "every way to charge reserves something");
  return 0;
}

bool budget_feasible(const Budget& budget, const RequestSize& size,
                     std::int64_t estimated_completion_tokens) {
  const auto& limit = budget.bucket->limit();
  return !limit ||
         budget_reservation(budget, size, estimated_completion_tokens) <=
             limit->capacity - budget.floor;
}

void Ledger::open_budgets(Instant now, std::span<const Budget> budgets, const RequestSize& size,
                          std::int64_t estimated_completion_tokens) {
  assert(count_ == 0 && budgets.size() <= kMaxBudgets && "a ledger is opened once, for one path");
  prompt_ = size.prompt_tokens;
  max_completion_ = size.max_completion_tokens();
  choices_ = size.choices;
  estimate_ = estimated_completion_tokens;
  for (const Budget& budget : budgets) {
    Line& line = lines_[count_++];
    line.budget = budget;
    line.reserved = budget_reservation(budget, size, estimated_completion_tokens);
    line.estimate = line.reserved - prompt_;
    move_line(now, line, line.reserved);
  }
}

void Ledger::open_share(ShareTree& tree, ShareTree::NodeIndex leaf, ClassIndex class_index) {
  assert(!share_open_ && "a request is dispatched once");
  share_ = tree.open_charge(leaf, class_index);
  share_open_ = true;
  tree.set_units(share_, kUnitsPerPromptToken * prompt_ + kUnitsPerGeneratedToken * estimate_);
}

void Ledger::on_cached(Instant now, ShareTree& tree, std::int64_t cached_prompt_tokens) {
  cached_ = std::clamp<std::int64_t>(cached_prompt_tokens, 0, prompt_);
  refresh(now, tree);
}

void Ledger::on_generated(Instant now, ShareTree& tree, std::int64_t tokens) {
  generated_ += tokens;
  refresh(now, tree);
}

// Moves every line to what it should stand at for the use so far.
void Ledger::refresh(Instant now, ShareTree& tree) {
  for (Line& line : std::span(lines_).first(count_)) {
    const std::int64_t prompt =
        prompt_ - cached_ + cached_cost(cached_, line.budget.cached_weight_milli);
    if (line.budget.charge == Charge::Hard) {
      move_line(now, line, prompt + line.estimate);
      top_up(now, line);
      continue;
    }
    move_line(now, line, prompt + std::max(line.estimate, generated_));
  }
  if (share_open_) {
    tree.set_units(share_, kUnitsPerPromptToken * (prompt_ - cached_) +
                               kUnitsPerGeneratedToken * std::max(estimate_, generated_));
  }
}

void Ledger::top_up(Instant now, Line& line) {
  while (generated_ + kHardAhead * choices_ > line.estimate && line.estimate < max_completion_) {
    const std::int64_t quantum =
        std::min(choices_ * kHardQuantum, max_completion_ - line.estimate);
    if (!line.budget.bucket->fits(now, quantum + line.budget.floor)) return;
    line.estimate += quantum;
    move_line(now, line, line.debited + quantum);
  }
}

bool Ledger::exhausted() const {
  return std::ranges::any_of(lines(), [&](const Line& line) {
    return line.budget.charge == Charge::Hard && line.budget.bucket->limit() &&
           line.estimate < max_completion_ && generated_ >= line.estimate;
  });
}

Settlement Ledger::close(Instant now, ShareTree& tree, std::int64_t prompt_tokens_computed,
                         std::int64_t generated_tokens, bool charged) {
  assert(prompt_tokens_computed >= 0 && generated_tokens >= 0 && "use is not negative");
  const std::int64_t computed = std::min(prompt_tokens_computed, prompt_ - cached_);
  Settlement settlement;
  for (Line& line : std::span(lines_).first(count_)) {
    const bool is_hard = line.budget.charge == Charge::Hard && line.budget.bucket->limit();
    const std::int64_t paid =
        is_hard ? std::min(generated_tokens, line.estimate) : generated_tokens;
    const std::int64_t used =
        computed + cached_cost(cached_, line.budget.cached_weight_milli) + paid;
    move_line(now, line, charged ? used : 0);
    line.budget.bucket->settle(line.debited);
    if (line.budget.bucket->limit()) {
      settlement.budgets.push_back(
          {line.budget.bucket->shared_name(), line.reserved, line.debited});
    }
  }
  if (share_open_) {
    tree.set_units(share_, charged ? kUnitsPerPromptToken * computed +
                                         kUnitsPerGeneratedToken * generated_tokens
                                   : 0);
    settlement.service_units = share_.units;
    share_open_ = false;
  }
  count_ = 0;
  return settlement;
}

void Ledger::abandon(Instant now) {
  assert(!share_open_ && "what was dispatched is closed with its actual use");
  for (Line& line : std::span(lines_).first(count_)) move_line(now, line, 0);
  count_ = 0;
}

void Ledger::move_line(Instant now, Line& line, std::int64_t target) {
  if (target > line.debited) line.budget.bucket->take(now, target - line.debited);
  if (target < line.debited) line.budget.bucket->give(now, line.debited - target);
  line.debited = target;
}

}  // namespace turnstile::policy
