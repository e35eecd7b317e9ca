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
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMinusInfinity = -kInfinity;

// The loops below become vector code because they compare integers: a comparison of floats might
// trap, which forbids it. The bits of a float without the sign order like its magnitude.
constexpr std::int32_t kMagnitudeMask = 0x7fff'ffff;

// 2^t = 2^n * 2^f with n the nearest integer, so |f| <= 1/2. Adding 1.5 * 2^23 rounds to n and
// leaves n in the low bits. 2^f is its Taylor series with coefficients ln(2)^k / k!; the first term
// left out is below 1.3e-7 of the result, about a rounding error.
[[gnu::always_inline]] inline float weight_inline(float below_best) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;
  // 2^-126 is the least normal float.
  constexpr auto kDeepest = std::bit_cast<std::int32_t>(126.0F);
  const std::int32_t depth = std::bit_cast<std::int32_t>(below_best * kLog2E) & kMagnitudeMask;
  // All ones where the depth is below the deepest; a conditional would become a jump.
  const std::int32_t has_weight = (depth - kDeepest) >> 31;
  const float t = -std::bit_cast<float>(kDeepest + ((depth - kDeepest) & has_weight));
  const float shifted = t + kRound;
  const float f = t - (shifted - kRound);
  float series = 1.54035304e-4F;
  series = series * f + 1.33335581e-3F;
  series = series * f + 9.61812911e-3F;
  series = series * f + 5.55041087e-2F;
  series = series * f + 2.40226507e-1F;
  series = series * f + 6.93147181e-1F;
  series = series * f + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(series) + exponent;
  return std::bit_cast<float>(bits & static_cast<std::uint32_t>(has_weight));
}

// Weight i of a tile adds to lane i % 16, so the sum has the same bits at every vector width.
[[gnu::always_inline]] inline float weigh_tile(const float* __restrict values, std::size_t count,
                                               float best, float inverse_temperature,
                                               float* __restrict weights) {
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = weight_inline((values[i] - best) * inverse_temperature);
  }
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += weights[i];
  float sum = 0.0F;
  for (const float lane : lanes) sum += lane;
  return sum;
}

[[gnu::always_inline]] inline void weigh_row(std::span<const float> row, float best,
                                             float inverse_temperature,
                                             float* __restrict weights,
                                             float* __restrict tile_sums) {
  for (std::size_t first = 0; first < row.size(); first += kWeightTile) {
    const std::size_t left = row.size() - first;
    const std::size_t count = left < kWeightTile ? left : kWeightTile;
    *tile_sums++ = weigh_tile(row.data() + first, count, best, inverse_temperature,
                              weights + first);
  }
}

// A number that orders as the float does, -0 below +0. The same formula leads back.
[[gnu::always_inline]] inline std::int32_t order_key(std::int32_t bits) {
  return bits ^ ((bits >> 31) & kMagnitudeMask);
}

// The greatest of the values, and the greatest magnitude's bits: at or above those of infinity if
// there is an infinity or a NaN.
[[gnu::always_inline]] inline float tile_best(const float* values, std::size_t count,
                                              std::int32_t& magnitude) {
  std::int32_t key = order_key(std::bit_cast<std::int32_t>(kMinusInfinity));
  std::int32_t most = magnitude;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(values[i]);
    const std::int32_t its_key = order_key(bits);
    const std::int32_t its_magnitude = bits & kMagnitudeMask;
    key = its_key > key ? its_key : key;
    most = its_magnitude > most ? its_magnitude : most;
  }
  magnitude = most;
  return std::bit_cast<float>(order_key(key));
}

[[gnu::always_inline]] inline std::int32_t scan_tiles(std::span<const float> row, float* best) {
  std::int32_t magnitude = 0;
  std::size_t first = 0;
  for (; first + kTile <= row.size(); first += kTile) {
    *best++ = tile_best(row.data() + first, kTile, magnitude);
  }
  if (first < row.size()) *best = tile_best(row.data() + first, row.size() - first, magnitude);
  return magnitude;
}

struct RowLoops {
  void (*weigh)(std::span<const float>, float, float, float*, float*);
  std::int32_t (*scan)(std::span<const float>, float*);
};

void weigh_plain(std::span<const float> row, float best, float inverse_temperature, float* weights,
                 float* tile_sums) {
  weigh_row(row, best, inverse_temperature, weights, tile_sums);
}
std::int32_t scan_plain(std::span<const float> row, float* best) { return scan_tiles(row, best); }

// The same loops compiled for wider vectors: no operation is fused or reordered, so the bits agree.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void weigh_avx2(std::span<const float> row, float best,
                                        float inverse_temperature, float* weights,
                                        float* tile_sums) {
  weigh_row(row, best, inverse_temperature, weights, tile_sums);
}
[[gnu::target("avx2")]] std::int32_t scan_avx2(std::span<const float> row, float* best) {
  return scan_tiles(row, best);
}
#endif

RowLoops choose_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return {weigh_avx2, scan_avx2};
#endif
  return {weigh_plain, scan_plain};
}

const RowLoops& row_loops() {
  static const RowLoops loops = choose_loops();
  return loops;
}

}  // namespace

float weight_of(float below_best) { return weight_inline(below_best); }

LogitsRow::LogitsRow(std::size_t vocab_size)
    : tile_best_((vocab_size + kTile - 1) / kTile),
      tile_best_copy_(tile_best_.size()),
      weights_(vocab_size),
      tile_weight_((vocab_size + kWeightTile - 1) / kWeightTile) {}

void LogitsRow::scan(std::span<const float> row) {
  assert(row.size() == weights_.size() && "a row has the vocabulary's size");
  row_ = row;
  const std::int32_t magnitude = row_loops().scan(row, tile_best_.data());
  all_finite_ = magnitude < std::bit_cast<std::int32_t>(kInfinity);
  best_ = kMinusInfinity;
  for (const float best : tile_best_) best_ = std::max(best_, best);
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
  at_least = std::max(at_least, std::numeric_limits<float>::lowest());
  for (std::size_t tile = 0; tile < tile_best_.size(); ++tile) {
    if (tile_best_[tile] < at_least) continue;
    const std::size_t end = std::min(row_.size(), (tile + 1) * kTile);
    for (std::size_t i = tile * kTile; i < end; ++i) {
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
