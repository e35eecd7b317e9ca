#include "gateway/deadlines.h"

namespace turnstile::gateway {

void Deadline::set(policy::Instant at) {
  if (place_ && at_ == at) return;
  clear();
  at_ = at;
  queue_.put(*this);
}

void Deadline::clear() {
  if (place_) queue_.remove(*this);
  mailbox_.discard(EventKind::Deadline);
}

std::optional<policy::Instant> Deadlines::next() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front()->at_;
}

void Deadlines::fire_due(policy::Instant now) {
  while (!heap_.empty() && heap_.front()->at_ <= now) {
    Deadline& due = *heap_.front();
    remove(due);
    due.mailbox_.put(EventKind::Deadline);
  }
}

void Deadlines::put(Deadline& deadline) {
  deadline.order_ = next_order_++;
  heap_.push_back(nullptr);
  place(heap_.size() - 1, &deadline);
  sift_up(heap_.size() - 1);
}

void Deadlines::remove(Deadline& deadline) {
  const std::size_t hole = *deadline.place_;
  deadline.place_.reset();
  Deadline* last = heap_.back();
  heap_.pop_back();
  if (last == &deadline) return;
  place(hole, last);
  sift_up(hole);
  sift_down(*last->place_);
}

void Deadlines::place(std::size_t index, Deadline* deadline) {
  heap_[index] = deadline;
  deadline->place_ = index;
}

void Deadlines::sift_up(std::size_t index) {
  Deadline* moving = heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (!earlier(*moving, *heap_[parent])) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, moving);
}

void Deadlines::sift_down(std::size_t index) {
  Deadline* moving = heap_[index];
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && earlier(*heap_[child + 1], *heap_[child])) ++child;
    if (!earlier(*heap_[child], *moving)) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, moving);
}

bool Deadlines::earlier(const Deadline& a, const Deadline& b) {
  return a.at_ != b.at_ ? a.at_ < b.at_ : a.order_ < b.order_;
}

}  // namespace turnstile::gateway
