// waiting_room.h: the requests that wait, in order.
//
// One queue per (key, class), in the class's LeafOrder, and a list of all by deadline. Which queue
// is next is decided by the share tree; how many may wait is decided by the queue meters. This
// class keeps order, deadlines and the choice of whom to displace, nothing else.
//
// "lifo-when-standing": a queue whose oldest request has used up half its wait is standing, and a
// first-in-first-out server would from then on only start requests that are about to be refused.
// While it stands the newest is served, which still meets its target; the oldest may time out.
//
// Invariant: an entry is in exactly one queue, and in the deadline list unless it was started
//            before (check_invariants()).
// Thread:    I/O thread only.
// Errors:    adding an id twice or removing an absent one is our bug and asserts.
// Cost:      add, remove: O(log n + length of one queue); displacement: O(n). n is bounded by
//            queue_requests_total.
// Tests:     tests/policy/waiting_room_test.cpp
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/instant.h"
#include "policy/policy_set.h"
#include "policy/request_id.h"
#include "policy/share_tree.h"

namespace turnstile::policy {

class WaitingRoom {
 public:
  struct Entry {
    RequestId id{};
    ShareTree::NodeIndex leaf = 0;
    ClassIndex class_index = 0;
    std::uint64_t order = 0;  // of arrival, unique; orders equal deadlines and finds the newest
    Instant deadline{};
    std::int64_t units = 0;   // estimated service, for positions in records and predictions
    Instant stands_at = Instant::max();  // from then on its queue counts as standing
    bool was_started = false;  // paused: its deadline only orders it, and nobody displaces it
  };

  // One order for each class; a class that is not in the list is first in, first out.
  explicit WaitingRoom(std::vector<LeafOrder> orders = {}) : orders_(std::move(orders)) {}

  void add(const Entry& entry);
  void remove(const Entry& entry);

  // The next request of one queue.
  std::optional<Entry> head(Instant now, ShareTree::NodeIndex leaf, ClassIndex class_index) const;
  bool empty(ShareTree::NodeIndex leaf, ClassIndex class_index) const;

  // Requests and their units in one queue.
  struct Backlog {
    std::int64_t requests = 0;
    std::int64_t units = 0;
  };
  Backlog backlog(ShareTree::NodeIndex leaf, ClassIndex class_index) const;

  std::int64_t size() const { return size_; }
  // Of the entries that may still be refused the one with the earliest deadline.
  std::optional<Entry> most_urgent() const;

  // Whom a newcomer of `class_index` may displace: among the entries of strictly lower classes that
  // `in_scope` accepts, the newest of the lowest class.
  template <typename InScope>
  std::optional<Entry> displaceable(ClassIndex class_index, InScope in_scope) const {
    std::optional<Entry> victim;
    for (const auto& [queue_key, queue] : queues_) {
      for (const Entry& entry : queue) {
        if (entry.class_index <= class_index || entry.was_started || !in_scope(entry)) continue;
        const bool better = !victim || entry.class_index > victim->class_index ||
                            (entry.class_index == victim->class_index &&
                             entry.order > victim->order);
        if (better) victim = entry;
      }
    }
    return victim;
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [queue_key, queue] : queues_) {
      for (const Entry& entry : queue) visit(entry);
    }
  }

  std::optional<std::string> check_invariants() const;

 private:
  using QueueKey = std::pair<ShareTree::NodeIndex, ClassIndex>;
  struct ByDeadline {
    bool operator()(const Entry& a, const Entry& b) const {
      return std::pair(a.deadline, a.order) < std::pair(b.deadline, b.order);
    }
  };

  LeafOrder order_of(ClassIndex class_index) const;
  bool goes_before(const Entry& a, const Entry& b) const;

  std::vector<LeafOrder> orders_;
  std::map<QueueKey, std::deque<Entry>> queues_;  // no empty queue is kept
  std::set<Entry, ByDeadline> by_deadline_;  // those that were not started
  std::int64_t size_ = 0;
};

}  // namespace turnstile::policy
