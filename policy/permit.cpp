#include "policy/permit.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace turnstile::policy {

Permit::Permit(Permit&& other) noexcept
    : entries_(other.entries_), count_(std::exchange(other.count_, 0)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  release();
  entries_ = other.entries_;
  count_ = std::exchange(other.count_, 0);
  return *this;
}

void Permit::add(Meter& meter, std::int64_t amount) {
  assert(count_ < kMaxEntries && "a path has fewer meters than a permit has entries");
  assert(held(meter) == 0 && "a permit names a meter once");
  meter.commit(amount);
  entries_[count_++] = {&meter, amount};
}

void Permit::grow(Meter& meter, std::int64_t amount) {
  const auto held_entries = std::span(entries_).first(count_);
  const auto it = std::ranges::find(held_entries, &meter, &Entry::meter);
  assert(it != held_entries.end() && "only what is held can grow");
  meter.commit(amount);
  it->amount += amount;
}

void Permit::give_back(Meter& meter, std::int64_t amount) {
  const auto held_entries = std::span(entries_).first(count_);
  const auto it = std::ranges::find(held_entries, &meter, &Entry::meter);
  assert(it != held_entries.end() && amount <= it->amount && "only what is held can be given back");
  meter.release(amount);
  it->amount -= amount;
}

void Permit::release() {
  for (std::size_t i = 0; i < count_; ++i) entries_[i].meter->release(entries_[i].amount);
  count_ = 0;
}

std::int64_t Permit::held(const Meter& meter) const {
  for (const Entry& entry : entries()) {
    if (entry.meter == &meter) return entry.amount;
  }
  return 0;
}

}  // namespace turnstile::policy
