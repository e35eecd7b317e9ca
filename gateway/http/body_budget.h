// body_budget.h: bytes of request bodies that are being held, in all and by team.
//
// The length a client declares is charged before the first byte is read, a chunked body at the
// largest size that is accepted. The charge is held until the body has become a request.
//
// Thread:    I/O.
// Ownership: a BodyCharge gives its bytes back when it is destroyed; the budget outlives it.
// Errors:    no room is expected: absent, answered with 503 overloaded.
// Tests:     tests/gateway/spine_parts_test.cpp.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile::gateway {

class BodyBudget;

class BodyCharge {
 public:
  BodyCharge(BodyBudget& budget, std::size_t& held_by_team, std::size_t bytes)
      : budget_(&budget), held_by_team_(held_by_team), bytes_(bytes) {}
  ~BodyCharge();
  BodyCharge(BodyCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        held_by_team_(other.held_by_team_),
        bytes_(other.bytes_) {}
  BodyCharge& operator=(BodyCharge&&) = delete;

 private:
  BodyBudget* budget_;  // null when moved from
  std::size_t& held_by_team_;
  std::size_t bytes_;
};

class BodyBudget {
 public:
  BodyBudget(std::size_t total_bytes, std::size_t team_bytes)
      : total_bytes_(total_bytes), team_bytes_(team_bytes) {}

  std::optional<BodyCharge> try_charge(std::string_view team, std::size_t bytes);

  std::size_t held_bytes() const { return held_bytes_; }

 private:
  friend class BodyCharge;

  std::size_t total_bytes_;
  std::size_t team_bytes_;
  std::size_t held_bytes_ = 0;
  // An entry stays: there are as many as teams have keys, and charges point to them.
  std::map<std::string, std::size_t, std::less<>> held_by_team_;
};

}  // namespace turnstile::gateway
