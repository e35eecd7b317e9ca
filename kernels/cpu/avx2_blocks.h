// avx2_blocks.h: the blocks of each panel type in the AVX2 level, and what its products share. Only
// translation units of that level include it; everything is local to them (tables.h says why).
//
// The instruction at hand multiplies unsigned bytes by signed bytes and adds pairs into 16 bits.
// How many column quads may be added before the sums are widened to 32 bits follows from the
// largest weight, with activations of at most 127:
//
//   nibbles       8 quads * 2 * 15 * 127 = 30,480       one widening a block
//   five bits     4 quads * 2 * 31 * 127 = 31,496       two
//   six bits      2 quads * 2 * 63 * 127 = 32,004       four, which multiply by the factors of Q6_K
//   a full byte   up to two rows as two nibbles, 16 * high + low: two parts, one widening each;
//                 more rows as 16-bit numbers
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kHalves = 2;  // a panel vector of 64 bytes is two registers of 8 rows
constexpr int kQuads = 8;   // column quads of a block

// Head bytes of a block, its vectors of weights, nibbles of a weight that are taken apart, quads
// that one 16-bit sum holds, zero point (0: there are minima), and whether it is a K type.
template <int HeadBytes, int Vectors, int Parts, int QuadsPerSum, int ZeroPoint, bool Super>
struct Format {
  static constexpr int kHeadBytes = HeadBytes;
  static constexpr int kVectors = Vectors;
  static constexpr int kParts = Parts;
  static constexpr int kQuadsPerSum = QuadsPerSum;
  static constexpr int kZeroPoint = ZeroPoint;
  static constexpr bool kSuper = Super;
  static constexpr bool kFactors = Super && ZeroPoint != 0;  // Q6_K
  static constexpr std::ptrdiff_t kBlockBytes = HeadBytes + 64 * Vectors;
  static constexpr std::ptrdiff_t kSuperBytes = kSuperHeadBytes + kBlocksPerSuper * kBlockBytes;
};
using Q8_0 = Format<32, 8, 2, 8, 128, false>;
using Q4_0 = Format<32, 4, 1, 8, 8, false>;
using Q5_0 = Format<32, 8, 1, 4, 16, false>;
using Q4_1 = Format<64, 4, 1, 8, 0, false>;
using Q5_1 = Format<64, 8, 1, 4, 0, false>;
using Q4_K = Format<32, 4, 1, 8, 0, true>;
using Q5_K = Format<32, 8, 1, 4, 0, true>;
using Q6_K = Format<32, 8, 1, 2, 32, true>;

template <typename F>
std::ptrdiff_t panel_stride(std::ptrdiff_t blocks) {
  if constexpr (F::kSuper) return blocks / kBlocksPerSuper * F::kSuperBytes;
  return blocks * F::kBlockBytes;
}

// A block of a panel, and the head that it shares with its neighbours (K types).
template <typename F>
struct Block {
  const std::uint8_t* at;
  const std::uint8_t* super;
  const std::uint8_t* weights() const { return at + F::kHeadBytes; }
};

template <typename F>
Block<F> block_of(const std::uint8_t* panel, std::ptrdiff_t b) {
  if constexpr (F::kSuper) {
    const std::uint8_t* super = panel + b / kBlocksPerSuper * F::kSuperBytes;
    return {super + kSuperHeadBytes + b % kBlocksPerSuper * F::kBlockBytes, super};
  }
  return {panel + b * F::kBlockBytes, nullptr};
}

inline __m256 halves_at(const std::uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline __m128i eight_bytes_at(const std::uint8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

inline __m256 small_integers_at(const std::uint8_t* from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes_at(from)));
}

// Of rows 8 * half .. 8 * half + 7.
template <typename F>
__m256 scale_of(Block<F> block, int half) {
  if constexpr (!F::kSuper) return halves_at(block.at + 16 * half);
  const __m256 scale = halves_at(block.super + 16 * half);
  if constexpr (F::kFactors) return scale;
  return _mm256_mul_ps(scale, small_integers_at(block.at + 8 * half));
}

// What a unit of scaled_sum adds; of types without a zero point.
template <typename F>
__m256 minimum_of(Block<F> block, int half) {
  static_assert(F::kZeroPoint == 0);
  if constexpr (F::kSuper) {
    const __m256 minimum = _mm256_mul_ps(halves_at(block.super + 32 + 16 * half),
                                         small_integers_at(block.at + 16 + 8 * half));
    return _mm256_xor_ps(minimum, _mm256_set1_ps(-0.0F));
  } else {
    return halves_at(block.at + 32 + 16 * half);
  }
}

// The factors of Q6_K for the first or last 16 columns, each twice: a widening multiplies the two
// 16-bit sums of a row by them.
inline __m256i factors_of(Block<Q6_K> block, int columns, int half) {
  const __m128i factors = eight_bytes_at(block.at + 16 * columns + 8 * half);
  return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(factors, factors));
}

// Its zero point: multiplied by the sums of a row's activations over the first and the last 16
// columns this is what the unsigned weights add too much, negated.
inline __m256i zero_factors_of(Block<Q6_K> block, int half) {
  const __m256i both = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(
      eight_bytes_at(block.at + 8 * half), eight_bytes_at(block.at + 16 + 8 * half)));
  return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(both, 5));
}

// Those two sums as 16-bit halves of one integer.
inline std::int32_t half_sums(const std::int8_t* q) {
  const __m256i activations = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), activations);
  __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
  return (_mm256_extract_epi32(sums, 0) & 0xffff) | _mm256_extract_epi32(sums, 4) << 16;
}

inline __m256i bytes_at(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

inline __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

inline __m256i quad_at(const std::int8_t* q) {
  std::int32_t quad = 0;
  std::memcpy(&quad, q, sizeof quad);
  return _mm256_set1_epi32(quad);
}

// Adds one quad's products; the first quad starts the sum. The empty statement keeps the compiler
// from turning the chain of additions into a tree, whose leaves do not fit the registers (measured:
// half the speed).
inline __m256i add_products(__m256i sum, __m256i weights, __m256i activations, bool first) {
  const __m256i products = _mm256_maddubs_epi16(weights, activations);
  sum = first ? products : _mm256_add_epi16(sum, products);
  __asm__("" : "+x"(sum));
  return sum;
}

// Pairs of 16-bit sums times `factors`, as 32 bits; the first starts the block's sums of 8 rows.
inline __m256i widen(__m256i sums, __m256i narrow, __m256i factors, bool first) {
  const __m256i wide = _mm256_madd_epi16(narrow, factors);
  return first ? wide : _mm256_add_epi32(sums, wide);
}

// Takes the zero point of all types but Q6_K off the sums of unsigned weights; `row_sum` is the sum
// of the row's activations.
template <typename F>
__m256i less_zero_point(__m256i sums, __m256i row_sum) {
  constexpr int kShift = std::countr_zero(static_cast<unsigned>(F::kZeroPoint));
  static_assert(F::kZeroPoint == 1 << kShift);
  return _mm256_sub_epi32(sums, _mm256_slli_epi32(row_sum, kShift));
}

// The order of reduction that kernel_table.h promises: one block's sum, then its minimum.
inline __m256 add_block(__m256 acc, __m256i sums, __m256 scale, __m256 row_scale) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_mul_ps(scale, row_scale), acc);
}

inline void store_lanes(const float* acc, int lanes, OutputMode mode, float* out) {
  if (lanes == kPanelRows) {
    for (int h = 0; h < kHalves; ++h) {
      __m256 value = _mm256_loadu_ps(acc + 8 * h);
      if (mode == OutputMode::Add) value = _mm256_add_ps(_mm256_loadu_ps(out + 8 * h), value);
      _mm256_storeu_ps(out + 8 * h, value);
    }
    return;
  }
  for (int r = 0; r < lanes; ++r) out[r] = mode == OutputMode::Add ? out[r] + acc[r] : acc[r];
}

}  // namespace

// Products of one or two rows of activations; avx2_few_rows.cpp.
void few_rows_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                     float* out, std::size_t out_stride, OutputMode mode);

// Products of three rows or more with Q8_0; avx2_byte_matmul.cpp.
void byte_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode);

}  // namespace turnstile::kernels::avx2
