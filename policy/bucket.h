// bucket.h: a rate per minute, as a token bucket in level form.
//
// The level rises by `per_minute` each minute up to `capacity`, and falls by what is taken. Level
// form instead of a theoretical arrival time (GCRA), because giving back and debt are then
// additions:
//
//        capacity  ---------------------------------.      .---- give() is capped here
//        level     \__ take(5) __/ refills /         \    /
//        0         ---------------------------------- \  / ----
//        debt                                          \/   take() may go below zero: generated
//                                                          tokens are facts; nothing new starts
//
// Exact in integers: the level is kept in units of 1/60,000,000 of a token, so that one microsecond
// adds `per_minute` units; the rest of a microsecond is carried by the time stamp. give() at the
// instant of take() restores the level to the unit.
//
// `held` counts what live requests have taken and not settled: take() adds, give() and settle()
// subtract. It limits nothing; check_invariants() of Admission compares it with the requests'
// books.
//
// A bucket without a limit grants everything and still counts `held`.
//
// Thread:    I/O thread only.
// Lifetime:  ledgers point to buckets, so a bucket never moves and outlives every ledger on it.
// Cost:      O(1), no allocation.
// Tests:     tests/policy/bucket_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/awaited.h"
#include "policy/instant.h"
#include "policy/meter_name.h"

namespace turnstile::policy {

class Bucket {
 public:
  struct Limit {
    std::int64_t per_minute = 0;  // 0: never grants
    std::int64_t capacity = 1;    // >= 1
    friend bool operator==(const Limit&, const Limit&) = default;
  };

  // Full at start.
  Bucket(std::string name, std::string scope, std::optional<Limit> limit, Instant now);
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  // True when `amount` could be taken now without debt.
  bool fits(Instant now, std::int64_t amount) const;

  // How long until fits(amount); zero when it fits; absent when it never will (rate of zero, or
  // more than a full bucket holds).
  std::optional<Duration> wait_for(Instant now, std::int64_t amount) const;

  // The same when `before_it` is taken first by others: the level may be earned several times over.
  std::optional<Duration> wait_after(Instant now, std::int64_t before_it,
                                     std::int64_t amount) const;

  void take(Instant now, std::int64_t amount);    // may leave a debt
  void give(Instant now, std::int64_t amount);    // of what was taken; the level is capped
  void settle(std::int64_t amount);               // what was taken stays spent

  // Earns at the old rate up to `now`, then the level is cut to the new capacity. A limit where
  // there was none starts full.
  void set_limit(Instant now, std::optional<Limit> limit);

  const std::optional<Limit>& limit() const { return limit_; }
  std::int64_t available(Instant now) const;  // whole tokens, rounded down; negative in debt
  Duration until_full(Instant now) const;
  std::int64_t held() const { return held_; }
  Awaited& awaited() { return awaited_; }
  const Awaited& awaited() const { return awaited_; }
  const std::string& name() const { return name_.text(); }
  const MeterName& shared_name() const { return name_; }
  const std::string& scope() const { return scope_; }

 private:
  struct Level {
    std::int64_t units = 0;
    Instant at{};  // when the level was this; advances by whole microseconds
  };
  Level level_at(Instant now) const;
  static Duration time_to_earn(std::int64_t units, std::int64_t per_minute);

  MeterName name_;
  std::string scope_;
  std::optional<Limit> limit_;
  Level level_;
  std::int64_t held_ = 0;
  Awaited awaited_;
};

}  // namespace turnstile::policy
