#include "engine/logits_row.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <limits>

namespace turnstile::engine {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

}  // namespace

LogitsRow::LogitsRow(std::size_t vocab_size)
    : tile_best_((vocab_size + kRowTile - 1) / kRowTile),
      tile_best_copy_(tile_best_.size()),
      weights_(vocab_size),
      tile_weight_((vocab_size + kWeightTile - 1) / kWeightTile),
      tile_reach_(tile_weight_.size()),
      picked_(vocab_size) {}

void LogitsRow::scan(std::span<const float> row) {
  assert(row.size() == weights_.size() && "a row has the vocabulary's size");
  row_ = row;
  const std::int32_t magnitude = row_loops().scan(row, tile_best_.data());
  all_finite_ = magnitude < std::bit_cast<std::int32_t>(-kNoLogit);
  best_ = kNoLogit;
  for (const float best : tile_best_) best_ = std::max(best_, best);
}

TokenId LogitsRow::best_token() const {
  const auto tile = static_cast<std::size_t>(
      std::find(tile_best_.begin(), tile_best_.end(), best_) - tile_best_.begin());
  const auto first = row_.begin() + static_cast<std::ptrdiff_t>(tile * kRowTile);
  return static_cast<TokenId>(std::find(first, row_.end(), best_) - row_.begin());
}

float LogitsRow::top_bound(std::size_t k) {
  if (k > tile_best_.size()) return kNoLogit;
  tile_best_copy_ = tile_best_;
  const auto kth = tile_best_copy_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(tile_best_copy_.begin(), kth, tile_best_copy_.end(), std::greater<>());
  return *kth;
}

void LogitsRow::gather(float at_least, std::vector<Candidate>& out) const {
  out.clear();
  at_least = std::max(at_least, std::numeric_limits<float>::lowest());
  for (std::size_t tile = 0; tile < tile_best_.size(); ++tile) {
    if (tile_best_[tile] < at_least) continue;
    const std::size_t end = std::min(row_.size(), (tile + 1) * kRowTile);
    for (std::size_t i = tile * kRowTile; i < end; ++i) {
      if (row_[i] >= at_least) out.push_back({row_[i], 0.0F, static_cast<TokenId>(i)});
    }
  }
}

double LogitsRow::weigh(float inverse_temperature) {
  row_loops().weigh(row_, best_, inverse_temperature, weights_.data(), tile_weight_.data());
  double sum = 0.0;
  for (const float tile : tile_weight_) sum += static_cast<double>(tile);
  return sum;
}

LogitsRow::Reach LogitsRow::reach(float at_least) {
  Reach reach;
  reach.count = row_loops().reach(row_, weights_.data(), at_least, tile_reach_.data());
  for (const float tile : tile_reach_) reach.weight += static_cast<double>(tile);
  return reach;
}

void LogitsRow::gather_between(float at_least, float below, std::vector<Candidate>& out) {
  out.clear();
  const std::size_t count = row_loops().pick(row_, at_least, below, picked_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const TokenId token = picked_[i];
    out.push_back({row_[token], weights_[token], token});
  }
}

double LogitsRow::keep_through(const Candidate& last) {
  const std::size_t behind = std::size_t{last.token} + 1;
  row_loops().drop(row_.first(behind), weights_.data(), last.logit, false);
  row_loops().drop(row_.subspan(behind), weights_.data() + behind, last.logit, true);
  row_loops().reach(row_, weights_.data(), kNoLogit, tile_weight_.data());
  double sum = 0.0;
  for (const float tile : tile_weight_) sum += static_cast<double>(tile);
  return sum;
}

TokenId LogitsRow::token_at(double target) const {
  double sum = 0.0;
  std::size_t tile = 0;
  for (; tile + 1 < tile_weight_.size(); ++tile) {
    const double next = sum + static_cast<double>(tile_weight_[tile]);
    if (next > target) break;
    sum = next;
  }
  // Within the tile the terms are added one by one, which may round to less than the tile's own
  // sum: then the tile's last token with a weight is meant.
  TokenId last = best_token();
  const std::size_t end = std::min(row_.size(), (tile + 1) * kWeightTile);
  for (std::size_t i = tile * kWeightTile; i < end; ++i) {
    if (weights_[i] == 0.0F) continue;
    sum += static_cast<double>(weights_[i]);
    last = static_cast<TokenId>(i);
    if (sum > target) break;
  }
  return last;
}

}  // namespace turnstile::engine
