#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <unordered_map>

namespace turnstile::engine {
namespace {

using Merge = MergeTable::Merge;

constexpr std::uint32_t kNoRank = 0xFFFF'FFFFu;
constexpr std::uint32_t kNoPosition = 0xFFFF'FFFFu;

Merge merge_of(const MergeTable& merges, TokenId left, TokenId right) {
  const Merge* merge = merges.find(left, right);
  return merge == nullptr ? Merge{kNoRank, 0} : *merge;
}

// Returns how many symbols are left at the front of `symbols`.
std::size_t merge_short(const MergeTable& merges, std::span<TokenId> symbols) {
  std::array<Merge, kShortPieceSymbols> pairs;  // pairs[i] is symbols[i] with symbols[i + 1]
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    pairs[i] = merge_of(merges, symbols[i], symbols[i + 1]);
  }
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].result;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i - 1] = pairs[i];
    }
    --count;
    if (best + 1 < count) pairs[best] = merge_of(merges, symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = merge_of(merges, symbols[best - 1], symbols[best]);
  }
  return count;
}

// Both queues hand out positions of pairs, lowest rank first, then leftmost. A position may be
// listed where it no longer belongs; the reader compares with the pair's present rank.

// All positions of the lowest rank at once, right where no merge brings about a pair of that rank
// or a lower one.
class RankBuckets {
 public:
  void add(std::uint32_t rank, std::uint32_t position) {
    const auto [bucket, is_new] = newest_entry_.try_emplace(rank, kNoPosition);
    if (is_new) ranks_.push(rank);
    entries_.push_back({position, bucket->second});
    bucket->second = static_cast<std::uint32_t>(entries_.size() - 1);
  }

  bool empty() const { return ranks_.empty(); }

  // Takes the lowest rank and all its positions, in ascending order.
  std::uint32_t take_lowest(std::vector<std::uint32_t>& positions) {
    const std::uint32_t rank = ranks_.top();
    ranks_.pop();
    positions.clear();
    const auto bucket = newest_entry_.find(rank);
    for (std::uint32_t i = bucket->second; i != kNoPosition; i = entries_[i].older) {
      positions.push_back(entries_[i].position);
    }
    newest_entry_.erase(bucket);
    std::reverse(positions.begin(), positions.end());
    if (!std::is_sorted(positions.begin(), positions.end())) {
      std::sort(positions.begin(), positions.end());
    }
    return rank;
  }

 private:
  struct Entry {
    std::uint32_t position;
    std::uint32_t older;  // the entry added before to the same bucket
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::uint32_t, std::uint32_t> newest_entry_;  // by rank
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_;
};

// One position at a time, for merge lists in any order.
class RankHeap {
 public:
  void add(std::uint32_t rank, std::uint32_t position) {
    heap_.push(std::uint64_t{rank} << 32 | position);
  }

  bool empty() const { return heap_.empty(); }

  std::uint32_t take_lowest(std::vector<std::uint32_t>& positions) {
    const std::uint64_t lowest = heap_.top();
    heap_.pop();
    positions.assign(1, static_cast<std::uint32_t>(lowest));
    return static_cast<std::uint32_t>(lowest >> 32);
  }

 private:
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap_;
};

template <typename Queue>
class LongPiece {
 public:
  LongPiece(const MergeTable& merges, std::span<const TokenId> symbols) : merges_(merges) {
    nodes_.resize(symbols.size());
    const auto count = static_cast<std::uint32_t>(symbols.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes_[i] = {symbols[i], i == 0 ? kNoPosition : i - 1, i + 1 == count ? kNoPosition : i + 1,
                   Merge{kNoRank, 0}};
    }
    for (std::uint32_t i = 0; i < count; ++i) refresh_pair(i);
  }

  void merge_all() {
    std::vector<std::uint32_t> positions;
    while (!queue_.empty()) {
      const std::uint32_t rank = queue_.take_lowest(positions);
      for (const std::uint32_t position : positions) {
        if (nodes_[position].pair.rank == rank) merge_at(position);
      }
    }
  }

  // Writes the symbols that are left and returns their number.
  std::size_t write(std::span<TokenId> symbols) const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i != kNoPosition; i = nodes_[i].next) symbols[count++] = nodes_[i].id;
    return count;
  }

 private:
  struct Node {
    TokenId id;
    std::uint32_t previous, next;
    Merge pair;  // with the next node
  };

  // Looks the pair at `position` up again and lists it.
  void refresh_pair(std::uint32_t position) {
    Node& node = nodes_[position];
    node.pair = node.next == kNoPosition ? Merge{kNoRank, 0}
                                         : merge_of(merges_, node.id, nodes_[node.next].id);
    if (node.pair.rank != kNoRank) queue_.add(node.pair.rank, position);
  }

  void merge_at(std::uint32_t position) {
    Node& node = nodes_[position];
    Node& merged = nodes_[node.next];
    node.id = node.pair.result;
    merged.pair.rank = kNoRank;
    node.next = merged.next;
    if (node.next != kNoPosition) nodes_[node.next].previous = position;
    refresh_pair(position);
    if (node.previous != kNoPosition) refresh_pair(node.previous);
  }

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  Queue queue_;
};

template <typename Queue>
std::size_t merge_long(const MergeTable& merges, std::span<TokenId> symbols) {
  LongPiece<Queue> piece(merges, symbols);
  piece.merge_all();
  return piece.write(symbols);
}

}  // namespace

void apply_merges(const MergeTable& merges, std::vector<TokenId>& ids, std::size_t from) {
  const std::size_t count = ids.size() - from;
  if (count < 2) return;
  const std::span<TokenId> symbols(ids.data() + from, count);
  if (count <= kShortPieceSymbols) {
    ids.resize(from + merge_short(merges, symbols));
    return;
  }
  assert(count < kNoPosition && "a text has fewer than 2^32 bytes");
  const std::size_t left = merges.is_ordered() ? merge_long<RankBuckets>(merges, symbols)
                                               : merge_long<RankHeap>(merges, symbols);
  ids.resize(from + left);
}

}  // namespace turnstile::engine
