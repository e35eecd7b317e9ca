// Products with weights of a full byte for AVX2, three rows of activations and more.
//
// Byte products do not fit the 16-bit sums of this level's byte multiplication, so weights and
// activations are widened to 16 bits, once for many uses, and vpmaddwd adds the products of two
// columns into 32 bits:
//
//   panel vector j, one row:    u0 u1 u2 u3      columns 4j .. 4j+3, unsigned bytes
//   even, odd (16 bits each):   w0 w2 | w1 w3    w = u - 128
//   activations (16 bits):      a0 a2 | a1 a3    the same, broadcast to 8 rows
//
// Measured on Zen 3 against weights taken as two nibbles and against S. Winograd's inner product
// (IEEE Transactions on Computers C-17, 1968; one multiplication for two columns but three
// additions): all need 32 instructions for 8 rows and 32 columns, and none does them faster.
// This one has the cheapest preparation of rows, which counts where an item has few panels.
//
// A sum of 32 columns is at most 32 * 128 * 127 < 2^19. Reference: the Scalar level, bit for bit;
// edges of rows, outputs and segments of 12 blocks: tests/kernels/tile_edges_test.cpp.
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_wide.h"

namespace turnstile::kernels::avx2 {
namespace {

struct WordProducts {
  using Format = Q8_0;

  struct alignas(32) WideBlock {
    float scale[kPanelRows];
    std::int16_t columns[2 * kQuads][kHalves][16];  // even ones of quad 0, odd ones, ..
  };

  struct alignas(64) PreparedBlock {
    std::int16_t even[kQuads][2];
    std::int16_t odd[kQuads][2];
  };

  static void expand_heads(Block<Format> block, WideBlock& wide) {
    for (int h = 0; h < kHalves; ++h) {
      _mm256_store_ps(wide.scale + 8 * h, scale_of<Format>(block, h));
    }
  }

  // Even (i = 2j) or odd columns of quad j, expanded at first use.
  template <bool Expands>
  [[gnu::always_inline]] static inline __m256i columns(const Block<Format>& block, WideBlock& wide,
                                                       int i, int half) {
    if constexpr (!Expands) return load(wide.columns[i][half]);
    const __m256i bytes = bytes_at(block.weights() + 64 * (i / 2) + 32 * half);
    const __m256i wide_bytes = i % 2 == 0 ? _mm256_and_si256(bytes, _mm256_set1_epi16(0xff))
                                          : _mm256_srli_epi16(bytes, 8);
    const __m256i wanted = _mm256_sub_epi16(wide_bytes, _mm256_set1_epi16(Format::kZeroPoint));
    store(wide.columns[i][half], wanted);
    return wanted;
  }

  static void prepare(const std::int8_t* q, PreparedBlock& prepared) {
    const __m256i bytes = bytes_at(reinterpret_cast<const std::uint8_t*>(q));
    store(prepared.even, _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
    store(prepared.odd, _mm256_srai_epi16(bytes, 8));
  }

  // The exact integer sums of one block.
  template <int Rows, bool Expands>
  [[gnu::always_inline]] static inline void block_sums(const Block<Format>& block, WideBlock& wide,
                                                       const RowPointers& pairs,
                                                       std::ptrdiff_t stride,
                                                       __m256i (&sums)[Rows][kHalves]) {
#pragma GCC unroll 16
    for (int i = 0; i < 2 * kQuads; ++i) {
      const __m256i first = columns<Expands>(block, wide, i, 0);
      const __m256i second = columns<Expands>(block, wide, i, 1);
      const std::ptrdiff_t offset = 4 * (i / 2 + (i % 2 == 0 ? 0 : kQuads));
#pragma GCC unroll 6
      for (int t = 0; t < Rows; ++t) {
        const __m256i pair = four_bytes_at(pairs.at(t, stride) + offset);
        sums[t][0] = add_pairs(sums[t][0], first, pair, i == 0);
        sums[t][1] = add_pairs(sums[t][1], second, pair, i == 0);
      }
    }
  }

  // As add_products() of avx2_blocks.h.
  static __m256i add_pairs(__m256i sum, __m256i weights, __m256i activations, bool first) {
    const __m256i products = _mm256_madd_epi16(weights, activations);
    sum = first ? products : _mm256_add_epi32(sum, products);
    __asm__("" : "+x"(sum));
    return sum;
  }

  template <int Rows, bool Expands>
  [[gnu::noinline]] static void tile(Segment<WordProducts> segment, TileRows<PreparedBlock> rows,
                                     NextPanel next, float (*acc)[kPanelRows]) {
    std::ptrdiff_t floats = rows.blocks * static_cast<std::ptrdiff_t>(sizeof(float));
    std::ptrdiff_t pairs_stride = rows.blocks * static_cast<std::ptrdiff_t>(sizeof(PreparedBlock));
    RowPointers pairs(rows.prepared, pairs_stride);
    RowPointers scales(rows.scale, floats);
    WideBlock* wide = segment.wide;
    for (int b = 0; b < segment.count; ++b, ++wide) {
      next.fetch_lines<(Format::kBlockBytes + 63) / 64>();
      __asm__("" : "+r"(pairs_stride), "+r"(floats));
      __m256i sums[Rows][kHalves];
      const Block<Format> block = block_of<Format>(segment.panel, segment.first + b);
      block_sums<Rows, Expands>(block, *wide, pairs, pairs_stride, sums);
      if constexpr (Expands) expand_heads(block, *wide);
      __asm__ volatile("" : : : "memory");  // the totals of acc stay in memory, once
#pragma GCC unroll 6
      for (int t = 0; t < Rows; ++t) {
        const __m256 row_scale = float_at(scales.at(t, floats));
#pragma GCC unroll 2
        for (int h = 0; h < kHalves; ++h) {
          float* total = acc[t] + 8 * h;
          _mm256_store_ps(total, add_block(_mm256_load_ps(total), sums[t][h],
                                           _mm256_load_ps(wide->scale + 8 * h), row_scale));
        }
      }
      pairs.advance(sizeof(PreparedBlock));
      scales.advance(sizeof(float));
    }
  }
};

}  // namespace

void byte_matmul(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode) {
  wide_products<WordProducts>(w, x, panel_begin, panel_end, out, out_stride, mode);
}

}  // namespace turnstile::kernels::avx2
