#include "policy/waiting_room.h"

#include <algorithm>
#include <cassert>

namespace turnstile::policy {

LeafOrder WaitingRoom::order_of(ClassIndex class_index) const {
  return class_index < orders_.size() ? orders_[class_index] : LeafOrder::Fifo;
}

// The order in which a queue is kept. Ties of deadlines by arrival.
bool WaitingRoom::goes_before(const Entry& a, const Entry& b) const {
  if (order_of(a.class_index) == LeafOrder::Edf && a.deadline != b.deadline) {
    return a.deadline < b.deadline;
  }
  return a.order < b.order;
}

void WaitingRoom::add(const Entry& entry) {
  const bool added = entry.was_started || by_deadline_.insert(entry).second;
  assert(added && "a request waits once");
  (void)added;
  size_ += 1;
  // Mostly at the back; a request that was paused, or whose deadline is near, goes before others.
  auto& queue = queues_[{entry.leaf, entry.class_index}];
  const auto before = [this](const Entry& a, const Entry& b) { return goes_before(a, b); };
  queue.insert(std::upper_bound(queue.begin(), queue.end(), entry, before), entry);
}

void WaitingRoom::remove(const Entry& entry) {
  const auto it = queues_.find({entry.leaf, entry.class_index});
  assert(it != queues_.end() && "only a waiting request is removed");
  const std::size_t removed = std::erase_if(
      it->second, [&](const Entry& candidate) { return candidate.id == entry.id; });
  assert(removed == 1 && "only a waiting request is removed");
  if (it->second.empty()) queues_.erase(it);
  const std::size_t forgotten = entry.was_started ? 1 : by_deadline_.erase(entry);
  size_ -= 1;
  assert(forgotten == 1 && "every waiting request has a deadline");
  (void)removed;
  (void)forgotten;
}

std::optional<WaitingRoom::Entry> WaitingRoom::head(Instant now, ShareTree::NodeIndex leaf,
                                                    ClassIndex class_index) const {
  const auto it = queues_.find({leaf, class_index});
  if (it == queues_.end()) return std::nullopt;
  const std::deque<Entry>& queue = it->second;
  const bool stands = order_of(class_index) == LeafOrder::LifoWhenStanding &&
                      now >= queue.front().stands_at;
  return stands ? queue.back() : queue.front();
}

bool WaitingRoom::empty(ShareTree::NodeIndex leaf, ClassIndex class_index) const {
  return !queues_.contains({leaf, class_index});
}

WaitingRoom::Backlog WaitingRoom::backlog(ShareTree::NodeIndex leaf, ClassIndex class_index) const {
  Backlog backlog;
  const auto it = queues_.find({leaf, class_index});
  if (it == queues_.end()) return backlog;
  for (const Entry& entry : it->second) {
    backlog.requests += 1;
    backlog.units += entry.units;
  }
  return backlog;
}

std::optional<WaitingRoom::Entry> WaitingRoom::most_urgent() const {
  if (by_deadline_.empty()) return std::nullopt;
  return *by_deadline_.begin();
}

std::optional<std::string> WaitingRoom::check_invariants() const {
  std::size_t in_queues = 0;
  std::size_t with_deadline = 0;
  for (const auto& [key, queue] : queues_) {
    if (queue.empty()) return "an empty queue is kept";
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (QueueKey{queue[i].leaf, queue[i].class_index} != key) return "a wrong queue";
      if (i > 0 && goes_before(queue[i], queue[i - 1])) return "a queue is out of its order";
      if (by_deadline_.contains(queue[i]) == queue[i].was_started) {
        return "exactly the requests that were not started have a deadline";
      }
      with_deadline += queue[i].was_started ? 0 : 1;
    }
    in_queues += queue.size();
  }
  if (with_deadline != by_deadline_.size()) return "a deadline belongs to no waiting request";
  if (static_cast<std::int64_t>(in_queues) != size_) return "waiting requests are miscounted";
  return std::nullopt;
}

}  // namespace turnstile::policy
