#include "engine/row_loops.h"

#include <bit>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace turnstile::engine {
namespace {

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
  for (; first + kRowTile <= row.size(); first += kRowTile) {
    *best++ = tile_best(row.data() + first, kRowTile, magnitude);
  }
  if (first < row.size()) *best = tile_best(row.data() + first, row.size() - first, magnitude);
  return magnitude;
}

std::size_t reach_plain(std::span<const float> row, const float* weights, float at_least,
                        float* tile_sums) {
  std::size_t reached = 0;
  for (std::size_t first = 0; first < row.size(); first += kWeightTile) {
    const std::size_t left = row.size() - first;
    const std::size_t count = left < kWeightTile ? left : kWeightTile;
    float lanes[kLanes] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_in = row[first + i] >= at_least;
      lanes[i % kLanes] += is_in ? weights[first + i] : 0.0F;
      reached += is_in ? 1 : 0;
    }
    float sum = 0.0F;
    for (const float lane : lanes) sum += lane;
    *tile_sums++ = sum;
  }
  return reached;
}

std::size_t pick_from(std::span<const float> row, std::size_t first, float at_least, float below,
                      std::size_t count, std::uint32_t* indices) {
  for (std::size_t i = first; i < row.size(); ++i) {
    indices[count] = static_cast<std::uint32_t>(i);
    count += row[i] >= at_least && row[i] < below ? 1 : 0;
  }
  return count;
}

std::size_t pick_plain(std::span<const float> row, float at_least, float below,
                       std::uint32_t* indices) {
  return pick_from(row, 0, at_least, below, 0, indices);
}

void drop_plain(std::span<const float> row, float* weights, float threshold, bool equal_too) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool stays = equal_too ? row[i] > threshold : row[i] >= threshold;
    if (!stays) weights[i] = 0.0F;
  }
}

void weigh_plain(std::span<const float> row, float best, float inverse_temperature, float* weights,
                 float* tile_sums) {
  weigh_row(row, best, inverse_temperature, weights, tile_sums);
}
std::int32_t scan_plain(std::span<const float> row, float* best) { return scan_tiles(row, best); }

// The first two are the same loops compiled for wider vectors: no operation is fused or reordered.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void weigh_avx2(std::span<const float> row, float best,
                                        float inverse_temperature, float* weights,
                                        float* tile_sums) {
  weigh_row(row, best, inverse_temperature, weights, tile_sums);
}

[[gnu::target("avx2")]] std::int32_t scan_avx2(std::span<const float> row, float* best) {
  return scan_tiles(row, best);
}

[[gnu::target("avx2")]] std::size_t reach_avx2(std::span<const float> row, const float* weights,
                                               float at_least, float* tile_sums) {
  const __m256 least = _mm256_set1_ps(at_least);
  // Less the number of values, in each of eight places.
  __m256i number = _mm256_setzero_si256();
  std::size_t first = 0;
  for (; first + kWeightTile <= row.size(); first += kWeightTile) {
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (std::size_t i = first; i < first + kWeightTile; i += kLanes) {
      const __m256 in_low = _mm256_cmp_ps(_mm256_loadu_ps(&row[i]), least, _CMP_GE_OQ);
      const __m256 in_high = _mm256_cmp_ps(_mm256_loadu_ps(&row[i + 8]), least, _CMP_GE_OQ);
      low = _mm256_add_ps(low, _mm256_and_ps(in_low, _mm256_loadu_ps(weights + i)));
      high = _mm256_add_ps(high, _mm256_and_ps(in_high, _mm256_loadu_ps(weights + i + 8)));
      number = _mm256_add_epi32(number, _mm256_add_epi32(_mm256_castps_si256(in_low),
                                                         _mm256_castps_si256(in_high)));
    }
    float lanes[kLanes];
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
    float sum = 0.0F;
    for (const float lane : lanes) sum += lane;
    *tile_sums++ = sum;
  }
  std::int32_t numbers[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers), number);
  std::size_t reached = 0;
  for (const std::int32_t less : numbers) reached += static_cast<std::size_t>(-less);
  if (first == row.size()) return reached;
  return reached + reach_plain(row.subspan(first), weights + first, at_least, tile_sums);
}

[[gnu::target("avx2")]] std::size_t pick_avx2(std::span<const float> row, float at_least,
                                              float below, std::uint32_t* indices) {
  const __m256 least = _mm256_set1_ps(at_least);
  const __m256 bound = _mm256_set1_ps(below);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + 8 <= row.size(); i += 8) {
    const __m256 values = _mm256_loadu_ps(&row[i]);
    auto bits = static_cast<std::uint32_t>(_mm256_movemask_ps(
        _mm256_and_ps(_mm256_cmp_ps(values, least, _CMP_GE_OQ),
                      _mm256_cmp_ps(values, bound, _CMP_LT_OQ))));
    for (; bits != 0; bits &= bits - 1) {
      indices[count++] = static_cast<std::uint32_t>(i) +
                         static_cast<std::uint32_t>(std::countr_zero(bits));
    }
  }
  return pick_from(row, i, at_least, below, count, indices);
}

[[gnu::target("avx2")]] void drop_avx2(std::span<const float> row, float* weights, float threshold,
                                       bool equal_too) {
  const __m256 bound = _mm256_set1_ps(threshold);
  std::size_t i = 0;
  for (; i + 8 <= row.size(); i += 8) {
    const __m256 values = _mm256_loadu_ps(&row[i]);
    const __m256 stays = equal_too ? _mm256_cmp_ps(values, bound, _CMP_GT_OQ)
                                   : _mm256_cmp_ps(values, bound, _CMP_GE_OQ);
    _mm256_storeu_ps(weights + i, _mm256_and_ps(stays, _mm256_loadu_ps(weights + i)));
  }
  drop_plain(row.subspan(i), weights + i, threshold, equal_too);
}
#endif

RowLoops choose_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    return {scan_avx2, weigh_avx2, reach_avx2, pick_avx2, drop_avx2};
  }
#endif
  return plain_row_loops();
}

}  // namespace

const RowLoops& plain_row_loops() {
  static constexpr RowLoops kLoops{scan_plain, weigh_plain, reach_plain, pick_plain, drop_plain};
  return kLoops;
}

const RowLoops& row_loops() {
  static const RowLoops loops = choose_loops();
  return loops;
}

float weight_of(float below_best) { return weight_inline(below_best); }

}  // namespace turnstile::engine
