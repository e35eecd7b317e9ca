// ticket_book.h: who was refused, told how long to wait, and is expected back.
//
// A refusal that names a wait gives a ticket. Whoever comes back with it in its window, not before
// and not long after, takes up the place of the first attempt:
//
//   order     in the queue of its key and class it stands where it would have stood
//   room      it may use what newcomers leave alone: rates, budgets and places that are kept for it
//   time      it may wait for its start and its first token three times as long
//
// So waiting as told costs nothing but the wait, and asking early gains nothing. A ticket moves
// nobody ahead of another key's requests: that stays the share tree's decision.
//
// Remembered, not signed: only the memory knows whether a ticket was used, and what is kept for it
// has to be remembered anyway. A ticket is known by the id of the refused request; it is bound to
// key, class, model and size. Everything that does not fit is as if no ticket had been shown.
//
// Room is kept only for keys whose earlier tickets came back in time: the allowance doubles with
// each that does and halves with each that does not. A client that floods, or that does not know of
// tickets, never holds anything back from others. At most half of a meter is kept; what one gives
// back is kept for the next that may come.
//
// Limits: kMostTickets in all; of one key kMostTicketsOfKey, half as many for each that was not
// used in time, down to kFewestTicketsOfKey, and twice as many for each that was. Beyond them
// refusals give none. So a client that asks on and on without its tickets makes others wait longer
// for once, and then by kFewestTicketsOfKey at most.
// Thread: I/O thread only. Cost: O(log n).
// Tests:  tests/policy/ticket_test.cpp, tests/sim/policy_ticket_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "policy/instant.h"
#include "policy/principals.h"
#include "policy/request_id.h"

namespace turnstile::policy {

inline constexpr std::size_t kMostTickets = 4096;
inline constexpr std::int64_t kFewestTicketsOfKey = 4;

// What a request will take when it comes, of all that it may be refused by.
struct TicketNeeds {
  std::int64_t prompt_tokens = 0;
  std::array<std::int64_t, 3> budget_tokens{};  // by level of the path
  std::int64_t units = 0;                       // estimated service
};

struct Ticket {
  RequestId id{};  // of the refused request
  KeyState* key = nullptr;
  ClassIndex class_index = 0;
  std::size_t model_index = 0;
  std::int64_t max_completion_tokens = 0;
  TicketNeeds needs;
  Instant first_arrived{};  // of the first attempt
  std::uint64_t order = 0;  // the same
  Instant from{};           // the window
  Instant until{};
  bool is_kept = false;  // newcomers leave its needs alone
};

class TicketBook {
 public:
  // How long after the told wait a client may come: whole seconds are rounded up, and the way is
  // long.
  static Duration window(Duration told);

  bool is_full(const KeyState& key) const;
  // REQUIRES: !is_full(), a new id.
  void add(const Ticket& ticket);
  const Ticket* find(RequestId id) const;
  void erase(RequestId id);

  // Of those without room, the first that `may_keep` accepts among the kMostLookedAt whose windows
  // open first.
  template <typename MayKeep>
  const Ticket* next_to_keep(MayKeep may_keep) const {
    std::size_t looked_at = 0;
    for (const auto& [from, id] : without_room_) {
      if (++looked_at > kMostLookedAt) break;
      const Ticket& ticket = tickets_.at(id);
      if (may_keep(ticket)) return &ticket;
    }
    return nullptr;
  }
  // REQUIRES: the ticket is in the book, without room.
  void keep(RequestId id);

  // The ticket whose window closed first, when it has closed.
  const Ticket* overdue(Instant now) const;

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, ticket] : tickets_) visit(ticket);
  }
  std::size_t size() const { return tickets_.size(); }

  std::optional<std::string> check_invariants() const;

 private:
  static constexpr std::size_t kMostLookedAt = 8;

  std::map<RequestId, Ticket> tickets_;
  std::set<std::pair<Instant, RequestId>> by_end_;
  std::set<std::pair<Instant, RequestId>> without_room_;  // by the begin of their windows
};

}  // namespace turnstile::policy
