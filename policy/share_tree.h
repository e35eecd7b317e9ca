// share_tree.h: hierarchical weighted fair sharing inside a class.
//
// Every node of root -> department -> team -> key has, per class, a counter v: service units
// charged to it, divided by its weight, times 2^20. The next request comes from the ready child
// with the smallest v, level by level from the root. This is the Virtual Token Counter (Sheng et
// al., "Fairness in Serving Large Language Models", OSDI 2024) applied at each level.
//
//            root
//           /    \            ready(node, class):
//        dept    dept           a leaf:  its gate is open and a request of that class waits
//        /  \      |            inside:  its gate is open and some child is ready
//     team  team  team
//      |     / \   |          A gate is closed for a class while the node runs at a
//     key  key key key        limit of requests that may run (in all, or of that class).
//
// Lift: when a node becomes ready, v = max(v, smallest v of its ready siblings), or, if none is
// ready, max(v, the largest smallest-v ever seen there). Otherwise a client that was silent for an
// hour would own the engine for as long when it returns. Debt is kept, credit is not.
// Readiness is local: while a team's gate is closed its keys stay ready among themselves, so the
// gate changes nothing between them.
//
// Charges are sums that can be corrected: a Charge remembers the units it stands for and the
// weights they were divided by, and set_units() moves every counter on the path by the exact
// difference, so that reserving, correcting and settling in any number of steps ends at the same
// integers as charging once.
//
// Bound (two siblings ready throughout, no locality slack): |W_f/w_f - W_g/w_g| <= 2U, where U is
// the largest running charge of one sibling divided by its weight.
//
// Invariant: ready_children counts exactly the ready children (check_invariants()).
// Thread:    I/O thread only.
// Errors:    misuse (charging a removed leaf, removing one with a waiting request) asserts.
// Cost:      set_gate, set_backlog: O(depth), plus O(siblings) at a node that becomes ready; pick:
//            O(children on the path); set_units: O(depth). No allocation but in add().
// Why not heaps: every charge would reorder one; a scan of integers beats it up to a few thousand
// siblings.
// Tests:     tests/policy/share_tree_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/awaited.h"
#include "policy/policy_set.h"

namespace turnstile::policy {

class ShareTree {
 public:
  using NodeIndex = std::uint32_t;
  static constexpr NodeIndex kRoot = 0;
  static constexpr std::size_t kMaxDepth = 3;  // below the root: department, team, key
  static constexpr std::int64_t kScale = std::int64_t{1} << 20;

  struct Charge {
    NodeIndex leaf = kRoot;  // kRoot: charges nobody
    ClassIndex class_index = 0;
    std::array<std::int64_t, kMaxDepth> weights{};  // of leaf, its parent, ...
    std::int64_t units = 0;
  };

  explicit ShareTree(std::size_t class_count);
  std::size_t class_count() const { return class_count_; }

  // A new child with an open gate and nothing waiting. Its counters start at zero; the lift puts
  // them right when it first becomes ready.
  NodeIndex add(NodeIndex parent, std::int64_t weight);
  // Forgets a leaf. No request of it may wait; its open charges must be dropped, not corrected.
  void remove(NodeIndex leaf);

  void set_weight(NodeIndex node, std::int64_t weight);  // for charges opened later
  void set_gate(NodeIndex node, bool open);  // for every class
  void set_gate(NodeIndex node, ClassIndex class_index, bool open);
  void set_backlog(NodeIndex leaf, ClassIndex class_index, bool waiting);

  bool ready(NodeIndex node, ClassIndex class_index) const {
    return state(node, class_index).ready;
  }
  bool gate(NodeIndex node, ClassIndex class_index) const {
    return state(node, class_index).gate_open;
  }
  bool backlog(NodeIndex leaf, ClassIndex class_index) const;

  // Waiting work, for predictions only: units that came to or left the queue of a leaf, added up on
  // its path.
  void add_waiting(NodeIndex leaf, ClassIndex class_index, std::int64_t units);
  std::int64_t waiting_units(NodeIndex node, ClassIndex class_index) const {
    return state(node, class_index).waiting_units;
  }
  // Units of those who were told to come back; see awaited.h.
  void add_awaited(NodeIndex leaf, ClassIndex class_index, Awaited units);
  enum class Counting : std::uint8_t { Waiting, AndKept, AndTold };
  std::int64_t work(NodeIndex node, ClassIndex class_index, Counting counting) const {
    const PerClass& own = state(node, class_index);
    const std::int64_t awaited = counting == Counting::AndTold   ? own.awaited.told
                                 : counting == Counting::AndKept ? own.awaited.kept
                                                                 : 0;
    return own.waiting_units + awaited;
  }
  // Of the waiting units of this class, those that are served before a newcomer at the leaf that
  // needs `units` itself: at each level the queue it stands in, and of each sibling as much as its
  // weight lets it have meanwhile. `behind`: units at the leaf that it goes before.
  // O(siblings on the path).
  std::int64_t units_ahead(NodeIndex leaf, ClassIndex class_index, std::int64_t units,
                           Counting counting = Counting::Waiting, std::int64_t behind = 0) const;
  // The same above a node: while it is served `mine` units, siblings of it and of what is above it
  // get so many.
  std::int64_t units_beside(NodeIndex node, ClassIndex class_index, std::int64_t mine,
                            Counting counting) const;

  // The leaf whose head is next in this class; absent when no leaf is ready.
  std::optional<NodeIndex> pick(ClassIndex class_index);

  // The same with locality (the slack of Deficit Longest Prefix Match, inside VTC): at each level
  // the children that are at most `slack_units` of service, by weight, ahead of the smallest v may
  // be next. Of their leaves the one whose head has most of its prompt in the cache, then the one
  // that is least ahead, is picked. The bound between siblings grows to 2(U + slack).
  struct Near {
    NodeIndex leaf = kRoot;
    std::int64_t cached = -1;
    std::int64_t ahead = 0;  // v above the smallest, added up over the levels
  };
  template <typename CachedOf>
  std::optional<Near> pick_near(ClassIndex class_index, std::int64_t slack_units,
                                CachedOf cached_of) {
    if (!ready(kRoot, class_index)) return std::nullopt;
    Near best;
    search_near(kRoot, class_index, slack_units * kScale, 0, cached_of, best);
    for (NodeIndex node = best.leaf; node != kRoot; node = nodes_[node].parent) {
      mark_smallest(nodes_[node].parent, class_index);
    }
    return best;
  }

  Charge open_charge(NodeIndex leaf, ClassIndex class_index) const;
  void set_units(Charge& charge, std::int64_t units);

  std::int64_t v(NodeIndex node, ClassIndex class_index) const {
    return state(node, class_index).v;
  }

  std::optional<std::string> check_invariants() const;

 private:
  struct PerClass {
    std::int64_t v = 0;
    std::int64_t highest_min = 0;  // over the children: the largest smallest-v that pick() saw
    std::int64_t waiting_units = 0;
    Awaited awaited;
    std::uint32_t ready_children = 0;
    bool gate_open = true;
    bool waiting = false;  // leaves
    bool ready = false;
  };
  struct Node {
    NodeIndex parent = kRoot;
    std::int64_t weight = 1;
    bool used = true;
    std::vector<NodeIndex> children;  // ascending
  };

  template <typename CachedOf>
  void search_near(NodeIndex node, ClassIndex class_index, std::int64_t slack, std::int64_t ahead,
                   CachedOf& cached_of, Near& best) const {
    if (nodes_[node].children.empty()) {
      const std::int64_t cached = cached_of(node);
      const bool is_better = cached > best.cached || (cached == best.cached && ahead < best.ahead);
      if (is_better) best = {node, cached, ahead};
      return;
    }
    const std::int64_t smallest = smallest_ready(node, class_index);
    for (const NodeIndex child : nodes_[node].children) {
      if (!ready(child, class_index)) continue;
      const std::int64_t above = v(child, class_index) - smallest;
      if (above <= slack) {
        search_near(child, class_index, slack, ahead + above, cached_of, best);
      }
    }
  }
  // REQUIRES: a child of the node is ready.
  std::int64_t smallest_ready(NodeIndex node, ClassIndex class_index) const;
  void mark_smallest(NodeIndex node, ClassIndex class_index);
  void refresh(NodeIndex node, ClassIndex class_index);
  void lift(NodeIndex node, ClassIndex class_index);
  void rebase_children(NodeIndex parent, ClassIndex class_index);

  PerClass& state(NodeIndex node, ClassIndex class_index) { return states_[class_index][node]; }
  const PerClass& state(NodeIndex node, ClassIndex class_index) const {
    return states_[class_index][node];
  }

  std::size_t class_count_;
  std::vector<Node> nodes_;
  // By class, then by node: who is next is asked of all siblings in one class.
  std::vector<std::vector<PerClass>> states_;
  std::vector<NodeIndex> free_;
};

}  // namespace turnstile::policy
