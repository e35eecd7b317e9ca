#include "engine/model/step_rows.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {

namespace {

// Scores that a tile computes, up to a constant.
std::uint64_t cost(const AttentionTile& tile) {
  const auto rows = static_cast<std::uint64_t>(tile.row_end - tile.row_begin);
  return rows * (tile.slice->first_position + static_cast<std::uint64_t>(tile.row_end));
}

void sort_by_cost(std::vector<AttentionTile>& tiles) {
  std::sort(tiles.begin(), tiles.end(), [](const AttentionTile& a, const AttentionTile& b) {
    if (cost(a) != cost(b)) return cost(a) > cost(b);
    return a.first_row + a.row_begin < b.first_row + b.row_begin;
  });
}

}  // namespace

void StepRows::reserve(std::size_t max_rows) {
  rows_.reserve(max_rows);
  runs_.reserve(max_rows);
  tiles_.reserve(max_rows);
  logits_tiles_.reserve(max_rows);
  logits_rows_.reserve(max_rows);
}

void StepRows::assign(std::span<const StepSlice> slices, std::size_t long_rows) {
  rows_.clear();
  runs_.clear();
  tiles_.clear();
  logits_tiles_.clear();
  logits_rows_.clear();
  for (const StepSlice& slice : slices) add_slice(slice, slice.tokens.size() >= long_rows);
  sort_by_cost(tiles_);
  sort_by_cost(logits_tiles_);
}

void StepRows::add_slice(const StepSlice& slice, bool is_long) {
  assert(!slice.tokens.empty() && "a slice has at least one token");
  assert(rows_.size() + slice.tokens.size() <= rows_.capacity() &&
         "a step has at most max_step_tokens tokens");
  const std::size_t end = slice.first_position + slice.tokens.size();
  assert(end <= slice.blocks.size() * kernels::kKvBlockTokens &&
         "the block table covers the slice's last position");

  const auto first_row = static_cast<int>(rows_.size());
  for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
    const auto position = static_cast<std::uint32_t>(slice.first_position + i);
    rows_.push_back({slice.tokens[i], position, slice.blocks[position / kernels::kKvBlockTokens],
                     static_cast<int>(position % kernels::kKvBlockTokens)});
  }
  const auto row_count = static_cast<int>(slice.tokens.size());
  if (runs_.empty() || runs_.back().is_long != is_long) {
    runs_.push_back({first_row, first_row, is_long});
  }
  runs_.back().end = first_row + row_count;
  for (int begin = 0; begin < row_count; begin += kTileRows) {
    tiles_.push_back({&slice, first_row, begin, std::min(begin + kTileRows, row_count),
                      is_long});
  }
  assert(slice.logits_rows <= slice.tokens.size() && "logits are of the slice's own tokens");
  for (int row = row_count - static_cast<int>(slice.logits_rows); row < row_count; ++row) {
    logits_rows_.push_back(first_row + row);
    logits_tiles_.push_back({&slice, first_row, row, row + 1, is_long});
  }
}

}  // namespace turnstile::engine
