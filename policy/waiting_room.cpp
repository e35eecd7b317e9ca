#include "policy/waiting_room.h"

#include <algorithm>
#include <cassert>

namespace turnstile::policy {

void WaitingRoom::add(const Entry& entry) {
  const bool added = by_deadline_.insert(entry).second;
  assert(added && "a request waits once");
  (void)added;
  queues_[{entry.leaf, entry.class_index}].push_back(entry);
}

void WaitingRoom::remove(const Entry& entry) {
  const auto it = queues_.find({entry.leaf, entry.class_index});
  assert(it != queues_.end() && "only a waiting request is removed");
  const std::size_t removed = std::erase_if(
      it->second, [&](const Entry& candidate) { return candidate.id == entry.id; });
  assert(removed == 1 && "only a waiting request is removed");
  if (it->second.empty()) queues_.erase(it);
  const std::size_t forgotten = by_deadline_.erase(entry);
  assert(forgotten == 1 && "every waiting request has a deadline");
  (void)removed;
  (void)forgotten;
}

std::optional<WaitingRoom::Entry> WaitingRoom::head(ShareTree::NodeIndex leaf,
                                                    ClassIndex class_index) const {
  const auto it = queues_.find({leaf, class_index});
  if (it == queues_.end()) return std::nullopt;
  return it->second.front();
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
  for (const auto& [key, queue] : queues_) {
    if (queue.empty()) return "an empty queue is kept";
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (QueueKey{queue[i].leaf, queue[i].class_index} != key) return "a wrong queue";
      if (i > 0 && queue[i].order < queue[i - 1].order) return "a queue is out of order of arrival";
      if (!by_deadline_.contains(queue[i])) return "a waiting request has no deadline";
    }
    in_queues += queue.size();
  }
  if (in_queues != by_deadline_.size()) return "a deadline belongs to no waiting request";
  return std::nullopt;
}

}  // namespace turnstile::policy
