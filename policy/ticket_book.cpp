#include "policy/ticket_book.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace turnstile::policy {
namespace {

constexpr Duration kShortestWindow = std::chrono::seconds(3);
constexpr Duration kLongestWindow = std::chrono::seconds(30);

}  // namespace

Duration TicketBook::window(Duration told) {
  return std::clamp(told / 4, kShortestWindow, kLongestWindow);
}

bool TicketBook::is_full(const KeyState& key) const {
  return tickets_.size() >= kMostTickets || key.tickets >= key.most_tickets;
}

void TicketBook::add(const Ticket& ticket) {
  assert(!is_full(*ticket.key) && ticket.from <= ticket.until && "the caller has asked");
  const bool added = tickets_.emplace(ticket.id, ticket).second;
  assert(added && "a request is refused once");
  (void)added;
  by_end_.emplace(ticket.until, ticket.id);
  if (!ticket.is_kept) without_room_.emplace(ticket.from, ticket.id);
  ticket.key->tickets += 1;
  ticket.key->kept_tickets += ticket.is_kept ? 1 : 0;
}

const Ticket* TicketBook::find(RequestId id) const {
  const auto it = tickets_.find(id);
  return it == tickets_.end() ? nullptr : &it->second;
}

void TicketBook::erase(RequestId id) {
  const auto it = tickets_.find(id);
  assert(it != tickets_.end() && "only what is in the book is erased");
  const Ticket& ticket = it->second;
  ticket.key->tickets -= 1;
  ticket.key->kept_tickets -= ticket.is_kept ? 1 : 0;
  by_end_.erase({ticket.until, id});
  without_room_.erase({ticket.from, id});
  tickets_.erase(it);
}

void TicketBook::keep(RequestId id) {
  Ticket& ticket = tickets_.at(id);
  const bool had_none = without_room_.erase({ticket.from, id}) == 1;
  assert(had_none && !ticket.is_kept && "room is kept once");
  (void)had_none;
  ticket.is_kept = true;
  ticket.key->kept_tickets += 1;
}

const Ticket* TicketBook::overdue(Instant now) const {
  if (by_end_.empty() || now <= by_end_.begin()->first) return nullptr;
  return &tickets_.at(by_end_.begin()->second);
}

std::optional<std::string> TicketBook::check_invariants() const {
  if (tickets_.size() != by_end_.size()) return "a ticket has no end";
  if (tickets_.size() > kMostTickets) return "there are too many tickets";
  std::map<const KeyState*, std::pair<std::int64_t, std::int64_t>> counts;
  for (const auto& [id, ticket] : tickets_) {
    if (ticket.id != id || !by_end_.contains({ticket.until, id}) ||
        ticket.is_kept == without_room_.contains({ticket.from, id})) {
      return "a ticket is misfiled";
    }
    counts[ticket.key].first += 1;
    counts[ticket.key].second += ticket.is_kept ? 1 : 0;
  }
  for (const auto& [key, count] : counts) {
    if (key->tickets != count.first || key->kept_tickets != count.second) {
      return key->scope + ": its tickets are miscounted";
    }
  }
  return std::nullopt;
}

}  // namespace turnstile::policy
