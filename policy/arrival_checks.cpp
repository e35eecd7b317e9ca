#include "policy/arrival_checks.h"

#include <algorithm>
#include <utility>

namespace turnstile::policy {
namespace {

Refusal bucket_refusal(RefusalCode code, const Bucket& bucket, Instant now, std::int64_t asked,
                       std::int64_t limit, std::optional<Duration> wait) {
  Refusal refusal;
  refusal.code = code;
  refusal.meter = bucket.name();
  refusal.scope = bucket.scope();
  refusal.limit = limit;
  refusal.committed = bucket.limit()->capacity - bucket.available(now);
  refusal.asked = asked;
  refusal.retry_after = wait;
  return refusal;
}

// Keeps the refusal with the longest wait; no wait at all counts as endless.
void keep_longest(std::optional<Refusal>& kept, Refusal refusal) {
  const bool longer = !kept || (kept->retry_after && (!refusal.retry_after ||
                                                      *refusal.retry_after > *kept->retry_after));
  if (longer) kept = std::move(refusal);
}

std::int64_t kept_from(const Bucket& bucket, Standing standing) {
  return standing == Standing::Newcomer ? bucket.awaited().kept : 0;
}

Check bucket_check(const Bucket& bucket, Instant now, std::int64_t asked) {
  const std::int64_t capacity = bucket.limit()->capacity;
  return {bucket.shared_name(), capacity, capacity - bucket.available(now), asked};
}

}  // namespace

Budget budget_of(Principal& node, ClassIndex class_index) {
  const auto& limit = node.tokens.limit();
  const std::int64_t floor_ppm = budget_floor_ppm(node.rules, class_index);
  // Capacities are below 2^34, so the product stays inside 64 bits.
  const std::int64_t floor = limit ? limit->capacity * floor_ppm / 1'000'000 : 0;
  return {&node.tokens, node.rules.charge, node.rules.cached_weight_milli, floor};
}

std::optional<Refusal> check_rates(Instant now, const Path& path, Standing standing) {
  std::optional<Refusal> kept;
  for (const Principal* node : path) {
    const Bucket& bucket = node->requests;
    if (bucket.fits(now, 1 + kept_from(bucket, standing))) continue;
    keep_longest(kept, bucket_refusal(RefusalCode::RateRequests, bucket, now, 1,
                                      bucket.limit()->per_minute,
                                      bucket.wait_after(now, bucket.awaited().told, 1)));
  }
  return kept;
}

std::optional<Refusal> check_budget_capacity(const Path& path, ClassIndex class_index,
                                             const RequestSize& size,
                                             std::int64_t estimated_completion_tokens) {
  for (Principal* node : path) {
    const Budget budget = budget_of(*node, class_index);
    const auto& limit = budget.bucket->limit();
    if (!limit) continue;
    const bool is_closed = limit->per_minute == 0;
    if (!is_closed && budget_feasible(budget, size, estimated_completion_tokens)) continue;
    Refusal refusal;
    refusal.code = is_closed ? RefusalCode::BudgetTokens : RefusalCode::ExceedsBudgetCapacity;
    refusal.meter = budget.bucket->name();
    refusal.scope = budget.bucket->scope();
    refusal.limit = is_closed ? 0 : limit->capacity - budget.floor;
    refusal.asked = budget_reservation(budget, size, estimated_completion_tokens);
    return refusal;
  }
  return std::nullopt;
}

std::optional<Refusal> check_budgets(Instant now, const Path& path, ClassIndex class_index,
                                     const RequestSize& size,
                                     std::int64_t estimated_completion_tokens,
                                     Standing standing) {
  std::optional<Refusal> kept;
  for (Principal* node : path) {
    const Budget budget = budget_of(*node, class_index);
    const Bucket& bucket = *budget.bucket;
    if (!bucket.limit()) continue;
    const std::int64_t asked = budget_reservation(budget, size, estimated_completion_tokens);
    const std::int64_t level = asked + budget.floor;
    if (bucket.fits(now, level + kept_from(bucket, standing))) continue;
    keep_longest(kept, bucket_refusal(RefusalCode::BudgetTokens, bucket, now, asked,
                                      bucket.limit()->per_minute,
                                      bucket.wait_after(now, bucket.awaited().told, level)));
  }
  return kept;
}

void record_rate_checks(Instant now, const Path& path, Checks& checks) {
  for (const Principal* node : path) {
    if (node->requests.limit()) checks.push_back(bucket_check(node->requests, now, 1));
  }
}

void record_budget_checks(Instant now, const Path& path, ClassIndex class_index,
                          const RequestSize& size, std::int64_t estimated_completion_tokens,
                          Checks& checks) {
  for (Principal* node : path) {
    if (!node->tokens.limit()) continue;
    const std::int64_t asked =
        budget_reservation(budget_of(*node, class_index), size, estimated_completion_tokens);
    checks.push_back(bucket_check(node->tokens, now, asked));
  }
}

}  // namespace turnstile::policy
