// deadlines.h: every deadline of the I/O thread in one timer queue that asks no clock.
//
// A session has one Deadline and moves it from phase to phase (header, body, queue, prefill, stall,
// write). The owner of the loop asks next(), sleeps until then, and calls fire_due(now), which puts
// EventKind::Deadline into the mailbox of each session whose time has come. The sleep of the loop
// stands behind all of them; the simulator has none and moves a clock by hand.
//
// Order: by time, and of equal times the one that was set first, so a run repeats exactly.
//
// Thread:    I/O.
// Lifetime:  a Deadline is a member of its session; its destructor clears it. The queue outlives
//            all of them.
// Cost:      set and clear O(log n), next O(1); no allocation once the heap has grown.
// Why not an asio timer for each: Asio's heap allocates a handler for each wait and its timers read
// their own clock, which a simulation cannot steer.
// Tests:     tests/gateway/deadlines_test.cpp (against a sorted list, seeds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gateway/mailbox.h"
#include "policy/instant.h"

namespace turnstile::gateway {

class Deadlines;

class Deadline {
 public:
  Deadline(Deadlines& queue, Mailbox& mailbox) : queue_(queue), mailbox_(mailbox) {}
  ~Deadline() { clear(); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Replaces what was set before. An event of the earlier time that was not read yet is void.
  void set(policy::Instant at);
  void clear();
  bool is_set() const { return place_.has_value(); }
  // REQUIRES: is_set().
  policy::Instant at() const { return at_; }

 private:
  friend class Deadlines;

  Deadlines& queue_;
  Mailbox& mailbox_;
  policy::Instant at_{};
  std::uint64_t order_ = 0;           // of set() calls, for equal times
  std::optional<std::size_t> place_;  // in the heap; absent when not set
};

class Deadlines {
 public:
  Deadlines() = default;
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  // The earliest time that is set.
  std::optional<policy::Instant> next() const;

  // Clears every deadline at or before `now` and tells its mailbox, earliest first.
  void fire_due(policy::Instant now);

  std::size_t size() const { return heap_.size(); }

 private:
  friend class Deadline;

  void put(Deadline& deadline);
  void remove(Deadline& deadline);
  void place(std::size_t index, Deadline* deadline);
  void sift_up(std::size_t index);
  void sift_down(std::size_t index);
  static bool earlier(const Deadline& a, const Deadline& b);

  std::vector<Deadline*> heap_;  // binary heap, the earliest at the front
  std::uint64_t next_order_ = 0;
};

}  // namespace turnstile::gateway
