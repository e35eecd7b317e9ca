#include "policy/waiting_room.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace turnstile::policy {

const WaitingRoom::Queue* WaitingRoom::find_queue(ShareTree::NodeIndex leaf,
                                                  ClassIndex class_index) const {
  const std::size_t index = queue_index(leaf, class_index);
  return index < queues_.size() && queues_[index].first != kNone ? &queues_[index] : nullptr;
}

// The order in which a queue is kept. Ties of deadlines by arrival.
bool WaitingRoom::goes_before(const Entry& a, const Entry& b) const {
  if (orders_[a.class_index] == LeafOrder::Edf) {
    const Instant first = a.kept_deadline.value_or(a.deadline);
    const Instant second = b.kept_deadline.value_or(b.deadline);
    if (first != second) return first < second;
  }
  return a.order < b.order;
}

bool WaitingRoom::may_be_displaced(const Entry& entry, ClassIndex newcomer) {
  return entry.class_index > newcomer && !entry.was_started;
}

bool WaitingRoom::is_displaced_before(const Entry& a, const Entry& b) {
  // Who came back as told is not sent away again while others can be.
  const auto rank = [](const Entry& one) {
    return std::tuple(one.class_index, !one.kept_deadline.has_value(), one.order);
  };
  return rank(a) > rank(b);
}

void WaitingRoom::add(const Entry& entry) {
  assert(entry.class_index < orders_.size() && "every class has an order");
  NodeIndex index = 0;
  if (free_.empty()) {
    index = static_cast<NodeIndex>(nodes_.size());
    nodes_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Node& node = nodes_[index];
  node = {entry, true, kNone, kNone, kNone};
  const std::size_t queue_at = queue_index(entry.leaf, entry.class_index);
  if (queue_at >= queues_.size()) queues_.resize(queue_at + 1);
  Queue& queue = queues_[queue_at];
  // Mostly at the back; a request that was paused, or whose deadline is near, goes before others.
  NodeIndex before = queue.last;
  while (before != kNone && goes_before(entry, nodes_[before].entry)) {
    before = nodes_[before].before;
  }
  assert((before == kNone || nodes_[before].entry.id != entry.id) && "a request waits once");
  NodeIndex& from_before = before == kNone ? queue.first : nodes_[before].after;
  node.before = before;
  node.after = std::exchange(from_before, index);
  (node.after == kNone ? queue.last : nodes_[node.after].before) = index;
  queue.backlog.requests += 1;
  queue.backlog.units += entry.units;
  size_ += 1;
  if (entry.was_started) return;
  by_deadline_.push_back(index);
  node.heap_place = static_cast<NodeIndex>(by_deadline_.size() - 1);
  sift_up(node.heap_place);
}

void WaitingRoom::remove(const Entry& entry) {
  const Queue* found = find_queue(entry.leaf, entry.class_index);
  assert(found != nullptr && "only a waiting request is removed");
  Queue& queue = queues_[queue_index(entry.leaf, entry.class_index)];
  NodeIndex index = found->first;
  while (index != kNone && nodes_[index].entry.id != entry.id) index = nodes_[index].after;
  assert(index != kNone && "only a waiting request is removed");
  Node& node = nodes_[index];
  (node.before == kNone ? queue.first : nodes_[node.before].after) = node.after;
  (node.after == kNone ? queue.last : nodes_[node.after].before) = node.before;
  queue.backlog.requests -= 1;
  queue.backlog.units -= node.entry.units;
  if (node.heap_place != kNone) forget_deadline(index);
  node.used = false;
  free_.push_back(index);
  size_ -= 1;
}

std::optional<WaitingRoom::Entry> WaitingRoom::head(Instant now, ShareTree::NodeIndex leaf,
                                                    ClassIndex class_index) const {
  const Queue* queue = find_queue(leaf, class_index);
  if (queue == nullptr) return std::nullopt;
  const bool stands = orders_[class_index] == LeafOrder::LifoWhenStanding &&
                      now >= nodes_[queue->first].entry.stands_at;
  return nodes_[stands ? queue->last : queue->first].entry;
}

bool WaitingRoom::empty(ShareTree::NodeIndex leaf, ClassIndex class_index) const {
  return find_queue(leaf, class_index) == nullptr;
}

WaitingRoom::Backlog WaitingRoom::backlog(ShareTree::NodeIndex leaf, ClassIndex class_index) const {
  const Queue* queue = find_queue(leaf, class_index);
  return queue == nullptr ? Backlog{} : queue->backlog;
}

WaitingRoom::Backlog WaitingRoom::behind(const Entry& entry) const {
  const Queue* queue = find_queue(entry.leaf, entry.class_index);
  Backlog behind;
  if (queue == nullptr || orders_[entry.class_index] == LeafOrder::LifoWhenStanding) return behind;
  for (NodeIndex index = queue->last; index != kNone; index = nodes_[index].before) {
    if (!goes_before(entry, nodes_[index].entry)) break;
    behind.requests += 1;
    behind.units += nodes_[index].entry.units;
  }
  return behind;
}

std::optional<WaitingRoom::Entry> WaitingRoom::most_urgent() const {
  if (by_deadline_.empty()) return std::nullopt;
  return nodes_[by_deadline_.front()].entry;
}

bool WaitingRoom::is_due_before(NodeIndex a, NodeIndex b) const {
  const Entry& first = nodes_[a].entry;
  const Entry& second = nodes_[b].entry;
  return std::pair(first.deadline, first.order) < std::pair(second.deadline, second.order);
}

void WaitingRoom::put(std::size_t place, NodeIndex node) {
  by_deadline_[place] = node;
  nodes_[node].heap_place = static_cast<NodeIndex>(place);
}

void WaitingRoom::sift_up(std::size_t place) {
  const NodeIndex node = by_deadline_[place];
  while (place > 0 && is_due_before(node, by_deadline_[(place - 1) / 2])) {
    put(place, by_deadline_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  put(place, node);
}

void WaitingRoom::sift_down(std::size_t place) {
  const NodeIndex node = by_deadline_[place];
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= by_deadline_.size()) break;
    const bool right_is_first = child + 1 < by_deadline_.size() &&
                                is_due_before(by_deadline_[child + 1], by_deadline_[child]);
    if (right_is_first) child += 1;
    if (!is_due_before(by_deadline_[child], node)) break;
    put(place, by_deadline_[child]);
    place = child;
  }
  put(place, node);
}

void WaitingRoom::forget_deadline(NodeIndex node) {
  const std::size_t place = nodes_[node].heap_place;
  const NodeIndex last = by_deadline_.back();
  by_deadline_.pop_back();
  nodes_[node].heap_place = kNone;
  if (last == node) return;
  put(place, last);
  sift_up(place);
  sift_down(nodes_[last].heap_place);
}

std::optional<std::string> WaitingRoom::check_invariants() const {
  std::size_t in_queues = 0;
  std::size_t with_deadline = 0;
  for (std::size_t at = 0; at < queues_.size(); ++at) {
    const Queue& queue = queues_[at];
    Backlog counted;
    NodeIndex before = kNone;
    for (NodeIndex index = queue.first; index != kNone; index = nodes_[index].after) {
      const Node& node = nodes_[index];
      if (!node.used || node.before != before) return "a queue is torn";
      if (queue_index(node.entry.leaf, node.entry.class_index) != at) return "a wrong queue";
      if (before != kNone && goes_before(node.entry, nodes_[before].entry)) {
        return "a queue is out of its order";
      }
      if ((node.heap_place == kNone) != node.entry.was_started) {
        return "exactly the requests that were not started have a deadline";
      }
      with_deadline += node.entry.was_started ? 0 : 1;
      counted.requests += 1;
      counted.units += node.entry.units;
      before = index;
    }
    if (queue.last != before) return "a queue is torn";
    if (counted.requests != queue.backlog.requests || counted.units != queue.backlog.units) {
      return "the backlog of a queue is miscounted";
    }
    in_queues += static_cast<std::size_t>(counted.requests);
  }
  for (std::size_t place = 0; place < by_deadline_.size(); ++place) {
    if (nodes_[by_deadline_[place]].heap_place != place) return "a deadline is misplaced";
    if (place > 0 && is_due_before(by_deadline_[place], by_deadline_[(place - 1) / 2])) {
      return "deadlines are out of their order";
    }
  }
  if (with_deadline != by_deadline_.size()) return "a deadline belongs to no waiting request";
  if (static_cast<std::int64_t>(in_queues) != size_) return "waiting requests are miscounted";
  return std::nullopt;
}

}  // namespace turnstile::policy
