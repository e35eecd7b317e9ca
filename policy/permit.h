// permit.h: what one request holds of the meters.
//
// A move-only list of (meter, amount). Adding commits; the amounts go back exactly once: by
// release(), in part by give_back(), or by the destructor. Two kinds exist in Admission: a place
// (in the queue meters) and a lease (inflight, slots, KV blocks).
//
// Invariant: for every meter, committed equals the sum over all live permits.
// Thread:    I/O thread only.
// Errors:    holding more than kMaxEntries meters, or giving back more than is held, is our bug.
// Cost:      no allocation; the largest permit is a place: five counts and four token caps.
// Tests:     tests/policy/permit_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "policy/meter.h"

namespace turnstile::policy {

class Permit {
 public:
  struct Entry {
    Meter* meter = nullptr;
    std::int64_t amount = 0;
  };
  static constexpr std::size_t kMaxEntries = 10;

  Permit() = default;
  ~Permit() { release(); }
  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

  // Commits `amount` on `meter`, whether it fits or not: the caller has asked for all meters before
  // it takes the first, so that a permit is held whole or not at all.
  void add(Meter& meter, std::int64_t amount);

  // Commits more on a meter that the permit already names.
  void grow(Meter& meter, std::int64_t amount);

  // Releases part of what is held on `meter`.
  void give_back(Meter& meter, std::int64_t amount);

  // Releases everything. A second call does nothing.
  void release();

  bool empty() const { return count_ == 0; }
  std::int64_t held(const Meter& meter) const;
  std::span<const Entry> entries() const { return {entries_.data(), count_}; }

 private:
  std::array<Entry, kMaxEntries> entries_{};
  std::size_t count_ = 0;
};

}  // namespace turnstile::policy
