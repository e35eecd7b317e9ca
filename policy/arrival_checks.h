// arrival_checks.h: the rate and budget gates that a request passes when it arrives.
//
// Pure questions: nothing is taken. When several nodes of the path say no, the one that needs the
// longest wait is reported, since a client that comes back earlier would be refused by it; a limit
// of zero needs an endless wait and is reported without one. Waits are exact, without jitter.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/ledger.h"
#include "policy/outcome.h"
#include "policy/principals.h"
#include "policy/request_size.h"
#include "policy/verdict.h"

namespace turnstile::policy {

// The node's budget as a request of that class sees it.
Budget budget_of(Principal& node, ClassIndex class_index);

// A newcomer leaves alone what is kept for those who were told to come back; whoever comes as told
// may use it. All are told to come after those who were told before.
enum class Standing : std::uint8_t { Newcomer, Expected };

// One request on every request rate of the path. RateRequests.
std::optional<Refusal> check_rates(Instant now, const Path& path, Standing standing);

// Could the request ever be paid from full buckets, above the floors of its class.
// ExceedsBudgetCapacity, or BudgetTokens for a budget of zero.
std::optional<Refusal> check_budget_capacity(const Path& path, ClassIndex class_index,
                                             const RequestSize& size,
                                             std::int64_t estimated_completion_tokens);

// The reservation on every token budget of the path. BudgetTokens.
std::optional<Refusal> check_budgets(Instant now, const Path& path, ClassIndex class_index,
                                     const RequestSize& size,
                                     std::int64_t estimated_completion_tokens,
                                     Standing standing);

// The limits that were looked at and had room, for the record. Call before anything is taken.
void record_rate_checks(Instant now, const Path& path, Checks& checks);
void record_budget_checks(Instant now, const Path& path, ClassIndex class_index,
                          const RequestSize& size, std::int64_t estimated_completion_tokens,
                          Checks& checks);

}  // namespace turnstile::policy
