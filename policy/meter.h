// meter.h: a finite thing and how much of it is taken.
//
// KV blocks, sequence slots, running requests of a team and places in a queue are all the same
// object: a capacity and a committed amount, in whole units. A Permit commits and releases; nobody
// else does. A meter without a capacity has no limit and still counts.
//
// A class may fill a meter up to its watermark only; callers ask fits() and never compare numbers
// themselves.
//
// Invariant: committed is the sum of the live permits' amounts; 0 <= committed; committed <=
// capacity
//            except after set_capacity() lowered it, until enough was released.
// Thread:    I/O thread only.
// Lifetime:  permits point to meters, so a meter never moves and outlives every permit on it.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "policy/awaited.h"
#include "policy/meter_name.h"

namespace turnstile::policy {

class Meter {
 public:
  // `name` as in metrics and records ("inflight/team/lab"), `scope` whose it is ("team/lab").
  Meter(std::string name, std::string scope, std::optional<std::int64_t> capacity)
      : name_(std::move(name)), scope_(std::move(scope)), capacity_(capacity) {
    assert((!capacity || *capacity >= 0) && "a capacity is not negative");
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  bool fits(std::int64_t amount) const { return !capacity_ || amount <= *capacity_ - committed_; }

  // Below a watermark in millionths of the capacity.
  bool fits(std::int64_t amount, std::int64_t watermark_ppm) const {
    return !capacity_ || amount <= part_of(*capacity_, watermark_ppm) - committed_;
  }
  // The same for a newcomer, who leaves alone what is kept for those who were told to come back.
  bool fits_newcomer(std::int64_t amount, std::int64_t watermark_ppm) const {
    return fits(amount + awaited_.kept, watermark_ppm);
  }
  // To the nearest whole unit, and at least one, so that the smallest engine serves every class.
  static std::int64_t part_of(std::int64_t capacity, std::int64_t ppm) {
    const std::int64_t part = (capacity * ppm + 500'000) / 1'000'000;
    return part == 0 && capacity > 0 ? 1 : part;
  }

  void commit(std::int64_t amount) {
    assert(amount >= 0 && "a permit holds no negative amount");
    committed_ += amount;
  }
  void release(std::int64_t amount) {
    assert(amount >= 0 && amount <= committed_ && "only what was committed can be released");
    committed_ -= amount;
  }

  // Never cuts what is committed; new amounts wait until it fits again.
  void set_capacity(std::optional<std::int64_t> capacity) { capacity_ = capacity; }

  Awaited& awaited() { return awaited_; }
  const Awaited& awaited() const { return awaited_; }

  const std::string& name() const { return name_.text(); }
  const MeterName& shared_name() const { return name_; }
  const std::string& scope() const { return scope_; }
  std::optional<std::int64_t> capacity() const { return capacity_; }
  std::int64_t committed() const { return committed_; }

 private:
  MeterName name_;
  std::string scope_;
  std::optional<std::int64_t> capacity_;
  std::int64_t committed_ = 0;
  Awaited awaited_;
};

}  // namespace turnstile::policy
