// Tickets: what is expected of those who were refused and told when to come back. The rules are in
// ticket_book.h.
#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "policy/admission_state.h"
#include "policy/arrival_checks.h"

namespace turnstile::policy {
namespace {

// A key that has just proved that it comes back may keep so many at once.
constexpr std::int64_t kFirstAllowance = 4;

void add(Awaited& awaited, std::int64_t amount, bool is_kept) {
  awaited.told += amount;
  if (is_kept) awaited.kept += amount;
  assert(awaited.kept >= 0 && awaited.told >= awaited.kept && "only what came can leave");
}

bool half_is_free(const Awaited& awaited, std::int64_t amount, std::int64_t capacity) {
  return awaited.kept + amount <= capacity / 2;
}

bool half_is_free(const Meter& meter, std::int64_t amount) {
  return !meter.capacity() || half_is_free(meter.awaited(), amount, *meter.capacity());
}

bool half_is_free(const Bucket& bucket, std::int64_t amount) {
  return !bucket.limit() || half_is_free(bucket.awaited(), amount, bucket.limit()->capacity);
}

}  // namespace

// Enters what a ticket's request will want in everything that it may be refused by.
void Admission::State::expect_back(const Ticket& ticket, std::int64_t sign) {
  const Path path = principals.path(*ticket.key);
  const bool kept = ticket.is_kept;
  const std::int64_t prompt = sign * ticket.needs.prompt_tokens;
  for (std::size_t level = 0; level < path.size(); ++level) {
    Principal& node = *path[level];
    add(node.requests.awaited(), sign, kept);
    add(node.tokens.awaited(), sign * ticket.needs.budget_tokens[level], kept);
    add(node.queue.awaited(), sign, kept);
    if (level > 0) add(node.queue_tokens.awaited(), prompt, kept);
  }
  add(queue_by_class[ticket.class_index].awaited(), sign, kept);
  add(queue_tokens_by_class[ticket.class_index].awaited(), prompt, kept);
  add(queue_all.awaited(), sign, kept);
  const std::int64_t units = sign * ticket.needs.units;
  shares.add_awaited(ticket.key->share, ticket.class_index, {units, kept ? units : 0});
}

// Whatever is kept, newcomers have at least half of each meter.
bool Admission::State::can_keep(const Ticket& ticket) {
  const KeyState& key = *ticket.key;
  if (key.kept_tickets >= key.may_keep) return false;
  const Path path = principals.path(*ticket.key);
  for (std::size_t level = 0; level < path.size(); ++level) {
    const Principal& node = *path[level];
    const bool fits = half_is_free(node.requests, 1) &&
                      half_is_free(node.tokens, ticket.needs.budget_tokens[level]) &&
                      half_is_free(node.queue, 1) &&
                      (level == 0 || half_is_free(node.queue_tokens, ticket.needs.prompt_tokens));
    if (!fits) return false;
  }
  return half_is_free(queue_by_class[ticket.class_index], 1) &&
         half_is_free(queue_tokens_by_class[ticket.class_index], ticket.needs.prompt_tokens) &&
         half_is_free(queue_all, 1);
}

// What is entered is the sum over the book, at every node and for everybody.
std::optional<std::string> Admission::State::awaited_fault() const {
  std::map<const Principal*, Awaited> expected;
  Awaited everybody;
  tickets.for_each([&](const Ticket& ticket) {
    const std::int64_t kept = ticket.is_kept ? 1 : 0;
    for (const Principal* node : principals.path(std::as_const(*ticket.key))) {
      expected[node].told += 1;
      expected[node].kept += kept;
    }
    everybody.told += 1;
    everybody.kept += kept;
  });
  std::optional<std::string> fault;
  const auto check = [&](const Principal& node) {
    const Awaited& queue = node.queue.awaited();
    if (queue.told != expected[&node].told || queue.kept != expected[&node].kept) {
      fault = node.scope + ": who is expected back is miscounted";
    }
  };
  principals.for_each_shared(check);
  principals.for_each_key(check);
  if (queue_all.awaited().told != everybody.told || queue_all.awaited().kept != everybody.kept) {
    fault = "who is expected back is miscounted";
  }
  return fault;
}

void Admission::State::drop_ticket(RequestId id) {
  const Ticket ticket = *tickets.find(id);
  expect_back(ticket, -1);
  tickets.erase(id);
  principals.end_ticket(*ticket.key);
}

// Room that a ticket gave back, or its key has earned, is for the next that may come.
void Admission::State::keep_next() {
  const Ticket* next = tickets.next_to_keep([&](const Ticket& one) { return can_keep(one); });
  if (next == nullptr) return;
  expect_back(*next, -1);
  tickets.keep(next->id);
  expect_back(*next, 1);
}

void Admission::State::expire_tickets(Instant now) {
  while (const Ticket* late = tickets.overdue(now)) {
    KeyState& key = *late->key;
    if (late->is_kept) key.may_keep /= 2;
    key.most_tickets = std::max(key.most_tickets / 2, kFewestTicketsOfKey);
    drop_ticket(late->id);
    keep_next();
  }
}

Admission::State::Claim Admission::State::claim_ticket(Instant now, KeyState& key,
                                                       const Resolved& resolved,
                                                       const RequestSize* size) {
  if (!resolved.ticket) return {};
  const Ticket* ticket = tickets.find(*resolved.ticket);
  if (ticket == nullptr || ticket->key != &key) return {TicketUse::Unknown, {}, {}};
  const bool is_larger = size != nullptr &&
                         (size->prompt_tokens > ticket->needs.prompt_tokens ||
                          size->max_completion_tokens() > ticket->max_completion_tokens);
  if (is_larger || ticket->class_index != resolved.class_index ||
      ticket->model_index != resolved.model_index) {
    return {TicketUse::Mismatch, {}, {}};
  }
  if (now < ticket->from) return {TicketUse::Early, {}, ticket->id};
  Claim claim{TicketUse::Kept, *ticket, {}};
  drop_ticket(ticket->id);
  key.may_keep = std::clamp(2 * key.may_keep, kFirstAllowance, kMostTicketsOfKey);
  key.most_tickets = std::min(2 * key.most_tickets, kMostTicketsOfKey);
  keep_next();
  return claim;
}

void Admission::State::take_up(Request& request, const Claim& claim) {
  request.shown = claim.use;
  request.early = claim.early;
  if (claim.use != TicketUse::Kept) return;
  request.keeps_place = true;
  request.own_order = request.order;
  request.first_arrived = claim.ticket->first_arrived;
  request.order = claim.ticket->order;
  request.may_be = {claim.ticket->needs.prompt_tokens, claim.ticket->max_completion_tokens};
}

void Admission::State::offer_ticket(Instant now, const Attempt& attempt, Refusal& refusal) {
  // Whoever asks too soon hears the same once more.
  if (const Ticket* told = attempt.early ? tickets.find(*attempt.early) : nullptr) {
    refusal.ticket = told->id;
    refusal.retry_after = told->from - now;
    return;
  }
  if (!refusal.retry_after || attempt.size == nullptr || tickets.is_full(*attempt.key)) return;
  if (tickets.find(attempt.id) != nullptr) return;  // an id that was used before
  Ticket ticket;
  ticket.id = attempt.id;
  ticket.key = attempt.key;
  ticket.class_index = attempt.class_index;
  ticket.model_index = attempt.model_index;
  ticket.max_completion_tokens = attempt.size->max_completion_tokens();
  ticket.needs.prompt_tokens = attempt.size->prompt_tokens;
  const Path path = principals.path(*attempt.key);
  for (std::size_t level = 0; level < path.size(); ++level) {
    const Budget budget = budget_of(*path[level], attempt.class_index);
    if (!budget.bucket->limit()) continue;
    ticket.needs.budget_tokens[level] =
        budget_reservation(budget, *attempt.size, attempt.estimated_completion_tokens);
  }
  ticket.needs.units = kUnitsPerPromptToken * attempt.size->prompt_tokens +
                       kUnitsPerGeneratedToken * attempt.estimated_completion_tokens;
  ticket.first_arrived = attempt.first_arrived;
  ticket.order = attempt.order;
  ticket.from = now + *refusal.retry_after;
  ticket.until = ticket.from + TicketBook::window(*refusal.retry_after);
  ticket.is_kept = can_keep(ticket);
  tickets.add(ticket);
  expect_back(ticket, 1);
  refusal.ticket = ticket.id;
}

}  // namespace turnstile::policy
