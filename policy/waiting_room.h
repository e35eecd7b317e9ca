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
// Cost:      add, behind: O(log n) and the entries that it goes before; remove: O(log n) and the
//            entries before it in its queue; displacement: O(n). n is bounded by
//            queue_requests_total. Places of entries that left are used again: a steady stream
//            allocates nothing.
// Tests:     tests/policy/waiting_room_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
    // Of a request that keeps the place of an earlier attempt: its deadline then, where deadlines
    // order the queue.
    std::optional<Instant> kept_deadline = std::nullopt;
    std::int64_t cached_tokens = 0;  // of its prompt, as far as was known when it came
  bool was_started = false;  // paused: its deadline only orders it, and nobody displaces it
  };

  // One order for each class.
  explicit WaitingRoom(std::vector<LeafOrder> orders = std::vector<LeafOrder>(4))
      : orders_(std::move(orders)) {}

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
  // Of the queue that the entry joins or is in, what stands behind it. Of a queue that may serve
  // its newest first, nothing.
  Backlog behind(const Entry& entry) const;

  std::int64_t size() const { return size_; }
  // Of the entries that may still be refused the one with the earliest deadline.
  std::optional<Entry> most_urgent() const;

  // Whom a newcomer of `class_index` may displace: among the entries of strictly lower classes that
  // `in_scope` accepts, the newest of the lowest class, those who keep a place last.
  template <typename InScope>
  std::optional<Entry> displaceable(ClassIndex class_index, InScope in_scope) const {
    std::optional<Entry> victim;
    for_each([&](const Entry& entry) {
      if (!may_be_displaced(entry, class_index) || !in_scope(entry)) return;
      if (!victim || is_displaced_before(entry, *victim)) victim = entry;
    });
    return victim;
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Node& node : nodes_) {
      if (node.used) visit(node.entry);
    }
  }

  std::optional<std::string> check_invariants() const;

 private:
  using NodeIndex = std::uint32_t;
  static constexpr NodeIndex kNone = UINT32_MAX;

  struct Node {
    Entry entry;
    bool used = false;
    NodeIndex before = kNone;  // in its queue
    NodeIndex after = kNone;
    NodeIndex heap_place = kNone;  // in by_deadline_
  };
  struct Queue {
    NodeIndex first = kNone;
    NodeIndex last = kNone;
    Backlog backlog;
  };

  std::size_t queue_index(ShareTree::NodeIndex leaf, ClassIndex class_index) const {
    return leaf * orders_.size() + class_index;
  }
  const Queue* find_queue(ShareTree::NodeIndex leaf, ClassIndex class_index) const;
  bool goes_before(const Entry& a, const Entry& b) const;
  static bool may_be_displaced(const Entry& entry, ClassIndex newcomer);
  static bool is_displaced_before(const Entry& a, const Entry& b);
  bool is_due_before(NodeIndex a, NodeIndex b) const;
  void put(std::size_t place, NodeIndex node);
  void sift_up(std::size_t place);
  void sift_down(std::size_t place);
  void forget_deadline(NodeIndex node);

  std::vector<LeafOrder> orders_;
  std::vector<Node> nodes_;
  std::vector<NodeIndex> free_;
  std::vector<Queue> queues_;           // by leaf and class
  std::vector<NodeIndex> by_deadline_;  // a heap of those that were not started
  std::int64_t size_ = 0;
};

}  // namespace turnstile::policy
