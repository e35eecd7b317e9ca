// coalesce.h: many like refusals become one record with a count.
//
// A client in a retry loop can be refused 25,000 times a second; a record each would fill the disk
// and hide everybody else. Rules (interface.md 9):
//
//   RefusalCoalescer    by key: the first 100 refusals of a second are records of their own, the
//                       rest of it is one record per code and class, with a count
//   StrangerCoalescer   by address: the first failure is a record, what follows within a minute is
//                       one record with a count at the end of the minute
//
// The sum over all counts equals the number of calls: nothing is lost, only merged.
//
// Thread: one. Time is passed in. Bounded: a key's window goes away when its second is over, an
// address's after a quiet minute; at most kMaxAddresses are told apart, the rest share "other".
// Cost: one hash look-up for a refusal; a record is copied only when a group is opened.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/records/records.h"
#include "policy/instant.h"

namespace turnstile::gateway {

// Look-up by string_view without making a string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class RefusalCoalescer {
 public:
  static constexpr std::uint32_t kSingleRecords = 100;
  static constexpr policy::Duration kWindow = std::chrono::seconds(1);

  struct Group {
    RequestRecord sample;  // the first of them
    std::uint64_t count = 0;
  };

  // True: write a record for this refusal. False: it was counted in a group.
  // Call take_due() first, so that groups of earlier windows come out before.
  bool note(policy::Instant now, const RequestRecord& record);

  // Appends the groups whose window is over at `now` (all groups with Instant::max()).
  void take_due(policy::Instant now, std::vector<Group>& out);

  std::optional<policy::Instant> next_deadline() const { return next_deadline_; }

 private:
  struct Window {
    policy::Instant ends{};
    std::uint32_t singles = 0;
    std::vector<Group> groups;
  };

  std::unordered_map<std::string, Window, TextHash, std::equal_to<>> windows_;
  std::optional<policy::Instant> next_deadline_;
};

class StrangerCoalescer {
 public:
  static constexpr std::size_t kMaxAddresses = 4'096;
  static constexpr policy::Duration kWindow = std::chrono::minutes(1);

  struct Group {
    std::string address;
    std::string_view code;
    int status = 0;
    std::uint64_t count = 0;
  };

  // As RefusalCoalescer; without `may_write` the first one is counted as well. `record_address` is
  // set to the name to write ("other" when too many).
  bool note(policy::Instant now, std::string_view address, std::string_view code, int status,
            bool may_write, std::string_view& record_address);
  void take_due(policy::Instant now, std::vector<Group>& out);
  std::optional<policy::Instant> next_deadline() const { return next_deadline_; }

 private:
  struct Window {
    policy::Instant ends{};
    std::string_view code;
    int status = 0;
    std::uint64_t count = 0;
  };

  std::unordered_map<std::string, Window, TextHash, std::equal_to<>> windows_;
  std::optional<policy::Instant> next_deadline_;
};

}  // namespace turnstile::gateway
