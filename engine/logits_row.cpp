#include "engine/logits_row.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <functional>
#include <limits>

namespace turnstile::engine {
namespace {

constexpr std::size_t kTile = 64;
constexpr std::size_t kWeightTile = 256;
constexpr std::size_t kLanes = 16;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// 2^t = 2^n * 2^f with n the nearest integer, so |f| <= 1/2. Adding 1.5 * 2^23 rounds to n and
// leaves n in the low bits. 2^f is its Taylor series with coefficients ln(2)^k / k!; the first term
// left out is below 6e-9 of the result. Branch-free, so that a loop over it becomes vector code.
[[gnu::always_inline]] inline float weight_inline(float below_best) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLowest = -126.0F;  // 2^kLowest is the least normal float
  constexpr float kRound = 12582912.0F;
  const float wanted = below_best * kLog2E;
  const float t = wanted > kLowest ? wanted : kLowest;
  const float shifted = t + kRound;
  const float f = t - (shifted - kRound);
  float series = 1.52527338e-5F;
  series = series * f + 1.54035304e-4F;
  series = series * f + 1.33335581e-3F;
  series = series * f + 9.61812911e-3F;
  series = series * f + 5.55041087e-2F;
  series = series * f + 2.40226507e-1F;
  series = series * f + 6.93147181e-1F;
  series = series * f + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  const float weight = std::bit_cast<float>(std::bit_cast<std::uint32_t>(series) + exponent);
  return wanted > kLowest ? weight : 0.0F;
}

// The same lane for the same index in every build: element i adds to lane i % 16.
[[gnu::always_inline]] inline float weight_sum_inline(const float* values, std::size_t count,
                                                      float best, float inverse_temperature) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += weight_inline((values[i + lane] - best) * inverse_temperature);
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    lanes[lane] += weight_inline((values[i] - best) * inverse_temperature);
  }
  float sum = 0.0F;
  for (const float lane : lanes) sum += lane;
  return sum;
}

[[gnu::always_inline]] inline void weight_tiles_inline(std::span<const float> row, float best,
                                                       float inverse_temperature, float* tiles) {
  for (std::size_t first = 0; first < row.size(); first += kWeightTile) {
    const std::size_t left = row.size() - first;
    const std::size_t count = left < kWeightTile ? left : kWeightTile;
    *tiles++ = weight_sum_inline(row.data() + first, count, best, inverse_temperature);
  }
}

using WeightTiles = void (*)(std::span<const float>, float, float, float*);

void weight_tiles_plain(std::span<const float> row, float best, float inverse_temperature,
                        float* tiles) {
  weight_tiles_inline(row, best, inverse_temperature, tiles);
}

// The same loop compiled for wider vectors: no operation is fused or reordered, so the bits agree.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void weight_tiles_avx2(std::span<const float> row, float best,
                                               float inverse_temperature, float* tiles) {
  weight_tiles_inline(row, best, inverse_temperature, tiles);
}

WeightTiles choose_weight_tiles() {
  return __builtin_cpu_supports("avx2") ? weight_tiles_avx2 : weight_tiles_plain;
}
#else
WeightTiles choose_weight_tiles() { return weight_tiles_plain; }
#endif

// `cond ? a : b` on equal types is what the vector maximum computes, NaN included; std::max on
// references would not become vector code.
float tile_best(const float* values, std::size_t count, std::uint32_t& greatest_bits) {
  float best[kLanes];
  std::int32_t bits[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    best[lane] = kMinusInfinity;
    bits[lane] = 0;
  }
  const auto magnitude = [](float x) {
    return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fff'ffff);
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float x = values[i + lane];
      best[lane] = x > best[lane] ? x : best[lane];
      const std::int32_t m = magnitude(x);
      bits[lane] = m > bits[lane] ? m : bits[lane];
    }
  }
  for (; i < count; ++i) {
    best[0] = values[i] > best[0] ? values[i] : best[0];
    bits[0] = std::max(bits[0], magnitude(values[i]));
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    best[0] = best[lane] > best[0] ? best[lane] : best[0];
    greatest_bits = std::max(greatest_bits, static_cast<std::uint32_t>(bits[lane]));
  }
  return best[0];
}

}  // namespace

float weight_of(float below_best) { return weight_inline(below_best); }

LogitsRow::LogitsRow(std::size_t vocab_size)
    : tile_best_((vocab_size + kTile - 1) / kTile),
      tile_best_copy_(tile_best_.size()),
      tile_weight_((vocab_size + kWeightTile - 1) / kWeightTile) {}

void LogitsRow::scan(std::span<const float> row) {
  assert((row.size() + kTile - 1) / kTile == tile_best_.size() && "a row has the vocabulary's size");
  row_ = row;
  std::uint32_t greatest_bits = 0;
  best_ = kMinusInfinity;
  for (std::size_t tile = 0; tile < tile_best_.size(); ++tile) {
    const std::size_t first = tile * kTile;
    tile_best_[tile] =
        tile_best(row.data() + first, std::min(kTile, row.size() - first), greatest_bits);
    best_ = tile_best_[tile] > best_ ? tile_best_[tile] : best_;
  }
  constexpr std::uint32_t kInfinityBits = 0x7f80'0000;  // NaNs are above
  all_finite_ = greatest_bits < kInfinityBits;
}

TokenId LogitsRow::best_token() const {
  const auto tile = static_cast<std::size_t>(
      std::find(tile_best_.begin(), tile_best_.end(), best_) - tile_best_.begin());
  const auto first = row_.begin() + static_cast<std::ptrdiff_t>(tile * kTile);
  return static_cast<TokenId>(std::find(first, row_.end(), best_) - row_.begin());
}

float LogitsRow::top_bound(std::size_t k) {
  if (k > tile_best_.size()) return kMinusInfinity;
  tile_best_copy_ = tile_best_;
  const auto kth = tile_best_copy_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(tile_best_copy_.begin(), kth, tile_best_copy_.end(), std::greater<>());
  return *kth;
}

void LogitsRow::gather(float at_least, std::vector<Candidate>& out) const {
  out.clear();
  for (std::size_t tile = 0; tile < tile_best_.size(); ++tile) {
    if (tile_best_[tile] < at_least) continue;
    const std::size_t end = std::min(row_.size(), (tile + 1) * kTile);
    for (std::size_t i = tile * kTile; i < end; ++i) {
      if (row_[i] >= at_least) out.push_back({row_[i], static_cast<TokenId>(i)});
    }
  }
}

double LogitsRow::sum_weights(float inverse_temperature) {
  static const WeightTiles weight_tiles = choose_weight_tiles();
  inverse_temperature_ = inverse_temperature;
  weight_tiles(row_, best_, inverse_temperature, tile_weight_.data());
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
    const float weight = weight_inline((row_[i] - best_) * inverse_temperature_);
    if (weight == 0.0F) continue;
    sum += static_cast<double>(weight);
    last = static_cast<TokenId>(i);
    if (sum > target) break;
  }
  return last;
}

}  // namespace turnstile::engine
