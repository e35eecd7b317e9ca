#include "policy/share_tree.h"

#include <algorithm>
#include <cassert>

namespace turnstile::policy {
namespace {

// Counters of one level are moved down together long before they could leave 64 bits.
constexpr std::int64_t kRebaseAbove = std::int64_t{1} << 60;

std::int64_t scaled(std::int64_t units, std::int64_t weight) {
  return units * ShareTree::kScale / weight;
}

}  // namespace

ShareTree::ShareTree(std::size_t class_count) : class_count_(class_count) {
  nodes_.emplace_back();
  states_.resize(class_count_);
  for (auto& of_class : states_) of_class.resize(1);
}

ShareTree::NodeIndex ShareTree::add(NodeIndex parent, std::int64_t weight) {
  assert(weight >= 1 && weight <= kMaxWeight && "weights come from the reader");
  NodeIndex node = 0;
  if (free_.empty()) {
    node = static_cast<NodeIndex>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
    nodes_[node] = Node{};
  }
  nodes_[node].parent = parent;
  nodes_[node].weight = weight;
  for (auto& of_class : states_) {
    of_class.resize(nodes_.size());
    of_class[node] = PerClass{};
  }
  auto& siblings = nodes_[parent].children;
  siblings.insert(std::ranges::lower_bound(siblings, node), node);
  return node;
}

void ShareTree::remove(NodeIndex leaf) {
  Node& node = nodes_[leaf];
  assert(leaf != kRoot && node.used && node.children.empty() && "only leaves are removed");
  for (const auto& of_class : states_) {
    assert(!of_class[leaf].waiting && "requests of a removed leaf are refused first");
    (void)of_class;
  }
  std::erase(nodes_[node.parent].children, leaf);
  node.used = false;
  free_.push_back(leaf);
}

void ShareTree::set_weight(NodeIndex node, std::int64_t weight) {
  assert(weight >= 1 && weight <= kMaxWeight && "weights come from the reader");
  nodes_[node].weight = weight;
}

void ShareTree::set_gate(NodeIndex node, bool open) {
  for (ClassIndex c = 0; c < class_count_; ++c) set_gate(node, c, open);
}

void ShareTree::set_gate(NodeIndex node, ClassIndex class_index, bool open) {
  PerClass& own = state(node, class_index);
  if (own.gate_open == open) return;
  own.gate_open = open;
  refresh(node, class_index);
}

void ShareTree::set_backlog(NodeIndex leaf, ClassIndex class_index, bool waiting) {
  state(leaf, class_index).waiting = waiting;
  refresh(leaf, class_index);
}

bool ShareTree::backlog(NodeIndex leaf, ClassIndex class_index) const {
  return state(leaf, class_index).waiting;
}

// Recomputes readiness from the node upwards until nothing changes.
void ShareTree::refresh(NodeIndex node, ClassIndex class_index) {
  for (;;) {
    PerClass& own = state(node, class_index);
    const bool ready = own.gate_open && (own.waiting || own.ready_children > 0);
    if (ready == own.ready) return;
    if (node == kRoot) {
      own.ready = ready;
      return;
    }
    if (ready) lift(node, class_index);
    own.ready = ready;
    PerClass& parent = state(nodes_[node].parent, class_index);
    parent.ready_children += ready ? 1u : -1u;
    node = nodes_[node].parent;
  }
}

void ShareTree::add_waiting(NodeIndex leaf, ClassIndex class_index, std::int64_t units) {
  NodeIndex node = leaf;
  for (;;) {
    std::int64_t& waiting = state(node, class_index).waiting_units;
    waiting += units;
    assert(waiting >= 0 && "only what came can leave");
    if (node == kRoot) return;
    node = nodes_[node].parent;
  }
}

void ShareTree::add_awaited(NodeIndex leaf, ClassIndex class_index, Awaited units) {
  NodeIndex node = leaf;
  for (;;) {
    Awaited& awaited = state(node, class_index).awaited;
    awaited.told += units.told;
    awaited.kept += units.kept;
    assert(awaited.told >= awaited.kept && awaited.kept >= 0 && "only what came can leave");
    if (node == kRoot) return;
    node = nodes_[node].parent;
  }
}

std::int64_t ShareTree::units_ahead(NodeIndex leaf, ClassIndex class_index, std::int64_t units,
                                    Counting counting, std::int64_t behind) const {
  const std::int64_t own = work(leaf, class_index, counting) - behind;
  return own + units_beside(leaf, class_index, own + units, counting);
}

std::int64_t ShareTree::units_beside(NodeIndex node, ClassIndex class_index, std::int64_t mine,
                                     Counting counting) const {
  std::int64_t beside = 0;
  for (; node != kRoot; node = nodes_[node].parent) {
    const Node& parent = nodes_[nodes_[node].parent];
    // While this node gets so much, a sibling gets as much by weight, if it wants so much; mostly
    // it wants less, and needs no division.
    const std::int64_t so_far = mine + beside;
    const std::int64_t weight = nodes_[node].weight;
    for (const NodeIndex sibling : parent.children) {
      const std::int64_t waiting = work(sibling, class_index, counting);
      if (sibling == node || waiting == 0) continue;
      const std::int64_t weighed = so_far * nodes_[sibling].weight;
      beside += waiting * weight <= weighed ? waiting : weighed / weight;
    }
  }
  return beside;
}

void ShareTree::lift(NodeIndex node, ClassIndex class_index) {
  const Node& parent = nodes_[nodes_[node].parent];
  std::optional<std::int64_t> smallest;
  for (const NodeIndex sibling : parent.children) {
    const PerClass& own = state(sibling, class_index);
    if (sibling == node || !own.ready) continue;
    smallest = smallest ? std::min(*smallest, own.v) : own.v;
  }
  PerClass& own = state(node, class_index);
  own.v = std::max(own.v, smallest.value_or(state(nodes_[node].parent, class_index).highest_min));
}

std::optional<ShareTree::NodeIndex> ShareTree::pick(ClassIndex class_index) {
  if (!ready(kRoot, class_index)) return std::nullopt;
  NodeIndex node = kRoot;
  while (!nodes_[node].children.empty()) {
    std::optional<NodeIndex> best;
    for (const NodeIndex child : nodes_[node].children) {
      if (!ready(child, class_index)) continue;
      if (!best || v(child, class_index) < v(*best, class_index)) best = child;
    }
    assert(best && "a ready node has a ready child");
    PerClass& own = state(node, class_index);
    own.highest_min = std::max(own.highest_min, v(*best, class_index));
    if (own.highest_min > kRebaseAbove) rebase_children(node, class_index);
    node = *best;
  }
  return node;
}

std::int64_t ShareTree::smallest_ready(NodeIndex node, ClassIndex class_index) const {
  std::int64_t smallest = INT64_MAX;
  for (const NodeIndex child : nodes_[node].children) {
    if (ready(child, class_index)) smallest = std::min(smallest, v(child, class_index));
  }
  assert(smallest != INT64_MAX && "a ready node has a ready child");
  return smallest;
}

void ShareTree::mark_smallest(NodeIndex node, ClassIndex class_index) {
  PerClass& own = state(node, class_index);
  own.highest_min = std::max(own.highest_min, smallest_ready(node, class_index));
  if (own.highest_min > kRebaseAbove) rebase_children(node, class_index);
}

// Only differences between siblings matter, so all of them move down by the same amount. A counter
// that would fall out of range belongs to a node that was silent for ages; the lift raises it
// again.
void ShareTree::rebase_children(NodeIndex parent, ClassIndex class_index) {
  PerClass& own = state(parent, class_index);
  for (const NodeIndex child : nodes_[parent].children) {
    std::int64_t& value = state(child, class_index).v;
    value = std::max(value - own.highest_min, -kRebaseAbove);
  }
  own.highest_min = 0;
}

ShareTree::Charge ShareTree::open_charge(NodeIndex leaf, ClassIndex class_index) const {
  Charge charge;
  charge.leaf = leaf;
  charge.class_index = class_index;
  NodeIndex node = leaf;
  for (std::size_t level = 0; level < kMaxDepth && node != kRoot; ++level) {
    charge.weights[level] = nodes_[node].weight;
    node = nodes_[node].parent;
  }
  return charge;
}

void ShareTree::set_units(Charge& charge, std::int64_t units) {
  assert(units >= 0 && "service is not negative");
  NodeIndex node = charge.leaf;
  for (std::size_t level = 0; level < kMaxDepth && node != kRoot; ++level) {
    assert(nodes_[node].used && "a leaf outlives its open charges");
    const std::int64_t weight = charge.weights[level];
    state(node, charge.class_index).v +=
        scaled(units, weight) - scaled(charge.units, weight);
    node = nodes_[node].parent;
  }
  charge.units = units;
}

std::optional<std::string> ShareTree::check_invariants() const {
  for (NodeIndex index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (!node.used) continue;
    for (ClassIndex c = 0; c < class_count_; ++c) {
      std::uint32_t ready_children = 0;
      for (const NodeIndex child : node.children) ready_children += ready(child, c) ? 1 : 0;
      const PerClass& own = state(index, c);
      if (ready_children != own.ready_children) return "a node miscounts its ready children";
      const bool expected = own.gate_open && (own.waiting || ready_children > 0);
      if (expected != own.ready) return "readiness does not follow from gate and queue";
    }
  }
  return std::nullopt;
}

}  // namespace turnstile::policy
