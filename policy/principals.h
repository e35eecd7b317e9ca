// principals.h: departments, teams and keys, each with its meters, buckets and place in the share
// tree. The state of limits lives here; the rules come from the PolicySet and keys.toml.
//
// Departments and teams are built once from the policy. Keys come and go with set_keys(): a key is
// known by (id, team), so that its buckets and counters survive a change of its limits. A key that
// is gone but has live requests or tickets is kept, retired, until the last one ends, because their
// permits and ledgers point into it.
//
// Invariants: a handle is never used twice; a retired key is in no look-up by id; a key without
//             live requests and tickets is never retired.
// Thread:     I/O thread only.
// Lifetime:   nodes do not move; pointers to them stay valid until a key is dropped, which needs
//             live_requests == 0 and no ticket.
// Tests:      tests/policy/admission_test.cpp (keys), tests/sim (reloads of keys at random times)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/bucket.h"
#include "policy/instant.h"
#include "policy/key_node.h"
#include "policy/ledger.h"
#include "policy/length_estimate.h"
#include "policy/meter.h"
#include "policy/policy_set.h"
#include "policy/share_tree.h"

namespace turnstile::policy {

// One node of the tree: a department, a team or a key.
struct Principal {
  // `kind` is "dept", "team" or "key". `queue_requests` is the limit in force (defaults applied).
  Principal(std::string_view kind, std::string_view node_name, const NodeRules& node_rules,
            ShareTree::NodeIndex share_node, Instant now);

  // The meter of the running requests of one class; null when the class has no limit of its own.
  Meter* inflight_of(ClassIndex class_index);
  const Meter* inflight_of(ClassIndex class_index) const;
  // One more request of the class may run.
  bool may_run(ClassIndex class_index) const;
  // `inflight` or the class's own meter is zero: no request of the class ever runs.
  const Meter* closed_for_good(ClassIndex class_index) const;

  std::string scope;  // "team/lab"
  NodeRules rules;
  ShareTree::NodeIndex share;
  Meter inflight;   // running requests
  Meter queue;      // places taken
  Meter queue_tokens;  // prompt tokens of those that wait
  std::map<ClassIndex, Meter> inflight_by_class;  // where set; the nodes of a map do not move
  Bucket requests;  // requests per minute
  Bucket tokens;    // prompt + generated tokens per minute
};

inline constexpr std::int64_t kMostTicketsOfKey = 64;

struct KeyState : Principal {
  KeyState(std::uint64_t key_handle, const KeyNode& key_node, const NodeRules& key_rules,
           std::size_t team, ShareTree::NodeIndex share_node, Instant now);

  LengthEstimate& length(std::size_t model, ClassIndex class_index);
  LengthEstimate length_or_start(std::size_t model, ClassIndex class_index) const;

  std::uint64_t handle;
  std::string id;
  std::size_t team_index;
  bool usable = true;  // false: disabled, or something in its entry could not be understood
  bool retired = false;
  std::int64_t live_requests = 0;
  // Of refused requests that are expected back (ticket_book.h).
  std::int64_t tickets = 0;
  std::int64_t kept_tickets = 0;
  std::int64_t may_keep = 0;  // so many at a time; earned by coming back in time
  std::int64_t most_tickets = kMostTicketsOfKey;  // at a time; lost by not coming back
  std::map<std::pair<std::size_t, ClassIndex>, LengthEstimate> lengths;
};

// The nodes whose limits hold for one request, narrowest first.
using Path = std::array<Principal*, 3>;       // key, team, department
using ConstPath = std::array<const Principal*, 3>;

class Principals {
 public:
  struct Problem {
    std::string key_id;
    std::string what;
  };

  Principals(const PolicySet& policy, ShareTree& tree);

  // See Admission::set_keys. Appends to `closed` the keys that may no longer be used and still have
  // live requests, so that the caller can refuse those that wait.
  std::vector<Problem> set_keys(Instant now, const std::vector<KeyNode>& keys,
                                std::vector<KeyState*>& closed);

  const KeyState* find(std::string_view id) const;        // a key in the current list
  KeyState* by_handle(std::uint64_t handle);              // also a retired one
  const KeyState* by_handle(std::uint64_t handle) const;  // also a retired one

  Path path(KeyState& key);
  ConstPath path(const KeyState& key) const;

  // A live request of the key began or ended; the last end drops a retired key.
  void begin_request(KeyState& key) { key.live_requests += 1; }
  void end_request(KeyState& key);
  // A ticket of the key is gone, perhaps the last thing that kept it.
  void end_ticket(KeyState& key) {
    if (key.retired) retire_or_drop(key);
  }

  template <typename Visit>
  void for_each_shared(Visit visit) const {
    for (const auto& department : departments_) visit(*department);
    for (const auto& team : teams_) visit(*team);
  }
  template <typename Visit>
  void for_each_key(Visit visit) const {
    for (const auto& [handle, key] : keys_) visit(*key);
  }

 private:
  void apply(Instant now, KeyState& key, const KeyNode& node, const NodeRules& rules);
  void retire_or_drop(KeyState& key);

  const PolicySet& policy_;
  ShareTree& tree_;
  std::vector<std::unique_ptr<Principal>> departments_;
  std::vector<std::unique_ptr<Principal>> teams_;
  std::map<std::uint64_t, std::unique_ptr<KeyState>> keys_;      // by handle, retired ones too
  std::unordered_map<std::uint64_t, KeyState*> by_handle_;       // the same, for look-ups
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, KeyState*, TextHash, std::equal_to<>> current_;  // by id
  std::uint64_t next_handle_ = 1;
};

}  // namespace turnstile::policy
