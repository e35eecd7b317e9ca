// Products with weights of a full byte for AVX2, seven rows of activations and more.
//
// Byte products do not fit the 16-bit sums of this level's byte multiplication, and taking a weight
// apart into nibbles doubles the work. Instead the sum of a block follows S. Winograd, "A New
// Algorithm for Inner Product" (IEEE Transactions on Computers C-17, 1968): for columns 0 and 1
//
//   (u0 + a1) * (u1 + a0)  =  u0*a0 + u1*a1  +  u0*u1  +  a0*a1
//
// so one multiplication of 16-bit numbers serves two columns; the last two terms depend on the
// weights alone and on the activations alone and are taken off a block at a time. An addition costs
// as much as a multiplication, so nothing is gained in their number: 32 instructions either way for
// 8 rows and 32 columns. But additions run on all four vector ports of a Zen 3, multiplications on
// two of them (measured: 3.6 instructions a cycle against 3.2), and nothing has to be widened.
//
//   panel vector j, one row:    u0 u1 u2 u3      columns 4j .. 4j+3, unsigned bytes
//   even, odd (16 bits each):   u0 u2 | u1 u3
//   activations (16 bits):      a1 a3 | a0 a2    broadcast to 8 rows, added to even and to odd
//   vpmaddwd:                   (u0+a1)*(u1+a0) + (u2+a3)*(u3+a2)
//
// Exactness: |sum| <= 32 * 255 * 127 < 2^20, sum of a0*a1 < 2^18 in size, so the 32-bit sums start
// from the bits of 1.5 * 2^23 and are then read as a float, which is 1.5 * 2^23 + the sum: a float
// subtraction takes that and the activations' term off, exactly, and is the conversion as well.
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_wide.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr float kIntegerBase = 12582912.0F;            // 1.5 * 2^23: its unit is 1
constexpr std::int32_t kIntegerBaseBits = 0x4b400000;

struct PairedProducts {
  using Format = Q8_0;
  static constexpr int kMaxTokens = 4;  // 2 * 4 sums, 4 weights, 2 activations, 2 temporaries

  struct alignas(32) WideBlock {
    float scale[kPanelRows];
    float minimum[kPanelRows];
    std::int32_t start[kHalves][8];  // kIntegerBaseBits - the sum of u0*u1
    std::int16_t even[kQuads][kHalves][16];
    std::int16_t odd[kQuads][kHalves][16];
  };

  template <int Tokens>
  struct TileBlock {
    std::int16_t q[Tokens][kQuads][4];  // a1 a3 a0 a2 of each quad
    float base[Tokens];                 // kIntegerBase + the sum of a0*a1
    float scale[Tokens];
    float scaled_sum[Tokens];
  };

  static void expand(Block<Format> block, WideBlock& wide) {
    for (int h = 0; h < kHalves; ++h) {
      const __m256 scale = scale_of<Format>(block, h);
      _mm256_store_ps(wide.scale + 8 * h, scale);
      _mm256_store_ps(wide.minimum + 8 * h, minimum_of<Format>(block, h, scale));
      __m256i start = _mm256_set1_epi32(kIntegerBaseBits);
      for (int j = 0; j < kQuads; ++j) {
        const __m256i bytes = bytes_at(block.weights() + 64 * j + 32 * h);
        const __m256i even = _mm256_and_si256(bytes, _mm256_set1_epi16(0xff));
        const __m256i odd = _mm256_srli_epi16(bytes, 8);
        store(wide.even[j][h], even);
        store(wide.odd[j][h], odd);
        start = _mm256_sub_epi32(start, _mm256_madd_epi16(even, odd));
      }
      store(wide.start[h], start);
    }
  }

  template <int Tokens>
  static void gather(const ActivationRows& x, int first, TileBlock<Tokens>* tile) {
    const std::ptrdiff_t blocks = x.cols / kQuantBlock;
    for (std::ptrdiff_t b = 0; b < blocks; ++b, ++tile) {
      for (int t = 0; t < Tokens; ++t) {
        const std::ptrdiff_t at = (first + t) * blocks + b;
        tile->base[t] = kIntegerBase + static_cast<float>(
                                           spread_quads(x.q + at * kQuantBlock, tile->q[t]));
        tile->scale[t] = x.scale[at];
        tile->scaled_sum[t] = x.scaled_sum[at];
      }
    }
  }

  // Activations of a block as a1 a3 a0 a2 of each quad; the sum of a0*a1 over all pairs.
  static std::int32_t spread_quads(const std::int8_t* q, std::int16_t (*quads)[4]) {
    const __m256i bytes = bytes_at(reinterpret_cast<const std::uint8_t*>(q));
    const __m256i odd = _mm256_srai_epi16(bytes, 8);
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    const __m256i low = _mm256_unpacklo_epi32(odd, even);    // quads 0, 1 and 4, 5
    const __m256i high = _mm256_unpackhi_epi32(odd, even);   // quads 2, 3 and 6, 7
    auto* to = reinterpret_cast<__m256i*>(quads);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
    const __m256i products = _mm256_madd_epi16(odd, even);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(products),
                                _mm256_extracti128_si256(products, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }

  static __m256i pair_at(const std::int16_t* pair) {
    std::int32_t both = 0;
    std::memcpy(&both, pair, sizeof both);
    return _mm256_set1_epi32(both);
  }

  // The sums of one block, as bits of floats.
  template <int Tokens>
  [[gnu::always_inline]] static inline void block_sums(const WideBlock& wide,
                                                       const TileBlock<Tokens>& tile,
                                                       __m256i (&sums)[Tokens][kHalves]) {
#pragma GCC unroll 8
    for (int j = 0; j < kQuads; ++j) {
      const __m256i even[kHalves] = {load(wide.even[j][0]), load(wide.even[j][1])};
      const __m256i odd[kHalves] = {load(wide.odd[j][0]), load(wide.odd[j][1])};
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; ++t) {
        const __m256i for_even = pair_at(tile.q[t][j]);
        const __m256i for_odd = pair_at(tile.q[t][j] + 2);
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          const __m256i products = _mm256_madd_epi16(_mm256_add_epi16(even[h], for_even),
                                                     _mm256_add_epi16(odd[h], for_odd));
          sums[t][h] = _mm256_add_epi32(products, j == 0 ? load(wide.start[h]) : sums[t][h]);
        }
        // Keeps the compiler from additions in another order, whose values do not fit the
        // registers.
        __asm__("" : "+x"(sums[t][0]), "+x"(sums[t][1]));
      }
    }
  }

  template <int Tokens>
  [[gnu::noinline]] static void tile(const WideBlock* wide, int blocks,
                                     const TileBlock<Tokens>* tile, NextPanel next,
                                     float (*acc)[kPanelRows]) {
    for (int b = 0; b < blocks; ++b, ++wide, ++tile) {
      next.fetch_lines<(Format::kBlockBytes + 63) / 64>();
      __m256i sums[Tokens][kHalves];
      block_sums<Tokens>(*wide, *tile, sums);
      __asm__ volatile("" : : : "memory");  // the totals of acc stay in memory, once
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; ++t) {
        const __m256 base = _mm256_set1_ps(tile->base[t]);
        const __m256 row_scale = _mm256_set1_ps(tile->scale[t]);
        const __m256 row_sum = _mm256_set1_ps(tile->scaled_sum[t]);
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          float* total = acc[t] + 8 * h;
          const __m256 sum = _mm256_sub_ps(_mm256_castsi256_ps(sums[t][h]), base);
          _mm256_store_ps(total, add_block(_mm256_load_ps(total), sum,
                                           _mm256_load_ps(wide->scale + 8 * h),
                                           _mm256_load_ps(wide->minimum + 8 * h), row_scale,
                                           row_sum));
        }
      }
    }
  }
};

}  // namespace

void byte_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode) {
  wide_products<PairedProducts>(w, x, panel_begin, panel_end, out, out_stride, mode);
}

}  // namespace turnstile::kernels::avx2
