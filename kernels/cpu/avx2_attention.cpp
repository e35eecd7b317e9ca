// Attention of the AVX2 level.
//
// For each chunk of positions: scores of all vectors of the tile (K as 16-row panels), softmax
// weights against the running maximum, weighted sums of V. Every sum runs in an order that depends
// on the position alone; a position that a row may not see has weight zero, which leaves a sum as
// it is. (Not quite: -0 + 0 is +0. So the result is normalised by adding +0 at the end.)
#include <immintrin.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/avx2_exp.h"

namespace turnstile::kernels::avx2 {
namespace {

constexpr int kMaxShared = 6;  // vectors that share a load: 2 * 6 sums, 2 of K or V, 1 broadcast

struct HalfElements {
  using Type = std::uint16_t;
  static __m256 load(const Type* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
};
struct FloatElements {
  using Type = float;
  static __m256 load(const Type* from) { return _mm256_loadu_ps(from); }
};

int smaller(int a, int b) { return a < b ? a : b; }
int larger(int a, int b) { return a > b ? a : b; }

float sum_lanes(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

float max_lanes(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// A query head of a row: where it is, how far it sees, and its softmax so far.
struct Vector {
  const float* q;
  float* out;
  int visible;
  float largest;
  float sum;
};

template <typename Elements>
struct Tile {
  const KvLayout& layout;
  const std::byte* head_base;  // of block 0
  std::size_t block_stride;
  const BlockId* blocks;
  Vector vectors[kAttentionTileVectors];
  int count;
  float* scores;    // (count, kAttentionChunk)
  float* queries;   // (head_dim, count), scaled
  float* weighted;  // (count, head_dim)

  const typename Elements::Type* keys(int block_index) const {
    return reinterpret_cast<const typename Elements::Type*>(
        head_base + static_cast<std::size_t>(blocks[block_index]) * block_stride);
  }
  const typename Elements::Type* values(int block_index) const {
    return keys(block_index) + static_cast<std::ptrdiff_t>(kKvBlockTokens) * layout.head_dim;
  }
};

void prefetch(const void* from) { _mm_prefetch(static_cast<const char*>(from), _MM_HINT_T0); }

// Scores of `Blocks` blocks for vectors [first, first + Shared). `ahead` is the K to fetch.
template <typename Elements, int Shared, int Blocks>
void score_blocks(const Tile<Elements>& tile, int first, int block_index, int position_in_chunk,
                  const typename Elements::Type* ahead) {
  const typename Elements::Type* keys[Blocks];
  __m256 sum[Blocks][Shared][2];
  for (int b = 0; b < Blocks; ++b) {
    keys[b] = tile.keys(block_index + b);
    for (int v = 0; v < Shared; ++v) sum[b][v][0] = sum[b][v][1] = _mm256_setzero_ps();
  }
  const float* queries = tile.queries + first;
  for (int d = 0; d < tile.layout.head_dim; ++d, queries += tile.count) {
    prefetch(ahead + d * kKvBlockTokens * Blocks);
#pragma GCC unroll 2
    for (int b = 0; b < Blocks; ++b) {
      const __m256 low = Elements::load(keys[b] + d * kKvBlockTokens);
      const __m256 high = Elements::load(keys[b] + d * kKvBlockTokens + 8);
#pragma GCC unroll 6
      for (int v = 0; v < Shared; ++v) {
        const __m256 q = _mm256_broadcast_ss(queries + v);
        sum[b][v][0] = _mm256_fmadd_ps(low, q, sum[b][v][0]);
        sum[b][v][1] = _mm256_fmadd_ps(high, q, sum[b][v][1]);
      }
    }
  }
  for (int b = 0; b < Blocks; ++b) {
    for (int v = 0; v < Shared; ++v) {
      float* to = tile.scores + (first + v) * kAttentionChunk + position_in_chunk +
                  b * kKvBlockTokens;
      _mm256_storeu_ps(to, sum[b][v][0]);
      _mm256_storeu_ps(to + 8, sum[b][v][1]);
    }
  }
}

// Scores of one chunk; `length` positions, rounded up to whole blocks.
template <typename Elements, int Shared>
void score_chunk(const Tile<Elements>& tile, int first, int chunk_begin, int length) {
  constexpr int kTogether = Shared <= 3 ? 2 : 1;  // two blocks hide the latency of few vectors
  const int first_block = chunk_begin / kKvBlockTokens;
  const int blocks = (length + kKvBlockTokens - 1) / kKvBlockTokens;
  int b = 0;
  for (; b + kTogether <= blocks; b += kTogether) {
    const int ahead = first_block + smaller(b + kTogether, blocks - 1);
    score_blocks<Elements, Shared, kTogether>(tile, first, first_block + b, b * kKvBlockTokens,
                                              tile.keys(ahead));
  }
  for (; b < blocks; ++b) {
    score_blocks<Elements, Shared, 1>(tile, first, first_block + b, b * kKvBlockTokens,
                                      tile.keys(first_block + b));
  }
}

// Turns the scores of one vector into weights; those past `visible` become zero, up to `padded`.
// Returns what the sums so far must be multiplied by.
float weigh(Vector& vector, float* scores, int visible, int padded) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto seen = [lane, visible](int t) {
    return _mm256_castsi256_ps(
        _mm256_cmpgt_epi32(_mm256_set1_epi32(visible - t), lane));
  };
  if (visible <= 0) {
    for (int t = 0; t < padded; t += 8) _mm256_storeu_ps(scores + t, _mm256_setzero_ps());
    return 1.0F;
  }
  const __m256 lowest = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  __m256 largest = lowest;
  for (int t = 0; t < visible; t += 8) {
    largest = _mm256_max_ps(_mm256_blendv_ps(lowest, _mm256_loadu_ps(scores + t), seen(t)),
                            largest);
  }
  const float before = vector.largest;
  const float chunk_largest = max_lanes(largest);
  vector.largest = chunk_largest > before ? chunk_largest : before;
  const __m256 subtract = _mm256_set1_ps(vector.largest);
  __m256 sum = _mm256_setzero_ps();
  for (int t = 0; t < padded; t += 8) {
    const __m256 weight = _mm256_and_ps(
        exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + t), subtract)), seen(t));
    _mm256_storeu_ps(scores + t, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  const __m256 difference = _mm256_set1_ps(before - vector.largest);
  const float rescale = vector.sum == 0.0F ? 0.0F : _mm256_cvtss_f32(exp8(difference));
  vector.sum = vector.sum * rescale + sum_lanes(sum);
  return rescale;
}

// weighted += weights times V, for vectors [first, first + Shared) and 8 * Columns dimensions.
template <typename Elements, int Shared, int Columns>
void add_values(const Tile<Elements>& tile, int first, int dim_begin, int chunk_begin, int length) {
  const std::ptrdiff_t dim = tile.layout.head_dim;
  __m256 sum[Shared][Columns];
  for (int v = 0; v < Shared; ++v) {
    for (int c = 0; c < Columns; ++c) {
      sum[v][c] = _mm256_loadu_ps(tile.weighted + (first + v) * dim + dim_begin + 8 * c);
    }
  }
  const float* weights = tile.scores + first * kAttentionChunk;
  for (int t = 0; t < length; t += kKvBlockTokens) {
    const typename Elements::Type* values =
        tile.values((chunk_begin + t) / kKvBlockTokens) + dim_begin;
    const int positions = smaller(kKvBlockTokens, length - t);
    for (int i = 0; i < positions; ++i, values += dim) {
      __m256 loaded[Columns];
#pragma GCC unroll 8
      for (int c = 0; c < Columns; ++c) loaded[c] = Elements::load(values + 8 * c);
#pragma GCC unroll 6
      for (int v = 0; v < Shared; ++v) {
        const __m256 weight = _mm256_broadcast_ss(weights + v * kAttentionChunk + t + i);
#pragma GCC unroll 8
        for (int c = 0; c < Columns; ++c) {
          sum[v][c] = _mm256_fmadd_ps(loaded[c], weight, sum[v][c]);
        }
      }
    }
  }
  for (int v = 0; v < Shared; ++v) {
    for (int c = 0; c < Columns; ++c) {
      _mm256_storeu_ps(tile.weighted + (first + v) * dim + dim_begin + 8 * c, sum[v][c]);
    }
  }
}

template <typename Elements, int Shared>
void add_values_of_chunk(const Tile<Elements>& tile, int first, int chunk_begin, int length) {
  constexpr int kColumns = Shared <= 1 ? 8 : Shared <= 3 ? 4 : 2;
  int d = 0;
  for (; d + 8 * kColumns <= tile.layout.head_dim; d += 8 * kColumns) {
    add_values<Elements, Shared, kColumns>(tile, first, d, chunk_begin, length);
  }
  for (; d < tile.layout.head_dim; d += 8) {
    add_values<Elements, Shared, 1>(tile, first, d, chunk_begin, length);
  }
}

// Calls visit(std::integral_constant<int, size>, first) for parts of nearly equal size.
template <typename Visit>
void for_each_part(int count, Visit visit) {
  const int parts = (count + kMaxShared - 1) / kMaxShared;
  for (int i = 0, first = 0; i < parts; ++i) {
    const int size = (count - first) / (parts - i);
    [&]<int... Sizes>(std::integer_sequence<int, Sizes...>) {
      ((size == Sizes + 1 ? visit(std::integral_constant<int, Sizes + 1>{}, first) : void()), ...);
    }(std::make_integer_sequence<int, kMaxShared>{});
    first += size;
  }
}

void multiply(float* values, int n, float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (int i = 0; i < n; i += 8) {
    _mm256_storeu_ps(values + i, _mm256_mul_ps(_mm256_loadu_ps(values + i), factors));
  }
}

template <typename Elements>
void attend_tile(Tile<Elements>& tile) {
  const int dim = tile.layout.head_dim;
  const float factor = 1.0F / std::sqrt(static_cast<float>(dim));
  int furthest = 0;
  for (int v = 0; v < tile.count; ++v) {
    furthest = larger(furthest, tile.vectors[v].visible);
    for (int d = 0; d < dim; ++d) {
      tile.queries[d * tile.count + v] = tile.vectors[v].q[d] * factor;
      tile.weighted[v * dim + d] = 0.0F;
    }
  }
  for (int begin = 0; begin < furthest; begin += kAttentionChunk) {
    const int length = smaller(kAttentionChunk, furthest - begin);
    const int padded = (length + kKvBlockTokens - 1) / kKvBlockTokens * kKvBlockTokens;
    for_each_part(tile.count, [&]<int Shared>(std::integral_constant<int, Shared>, int first) {
      score_chunk<Elements, Shared>(tile, first, begin, length);
    });
    for (int v = 0; v < tile.count; ++v) {
      Vector& vector = tile.vectors[v];
      const float rescale = weigh(vector, tile.scores + v * kAttentionChunk,
                                  smaller(kAttentionChunk, vector.visible - begin), padded);
      if (rescale != 1.0F) multiply(tile.weighted + v * dim, dim, rescale);
    }
    for_each_part(tile.count, [&]<int Shared>(std::integral_constant<int, Shared>, int first) {
      add_values_of_chunk<Elements, Shared>(tile, first, begin, length);
    });
  }
  for (int v = 0; v < tile.count; ++v) {
    const Vector& vector = tile.vectors[v];
    const __m256 total = _mm256_set1_ps(vector.sum);
    for (int d = 0; d < dim; d += 8) {
      const __m256 mean = _mm256_div_ps(_mm256_loadu_ps(tile.weighted + v * dim + d), total);
      _mm256_storeu_ps(vector.out + d, _mm256_add_ps(mean, _mm256_setzero_ps()));
    }
  }
}

template <typename Elements>
void attend_rows(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
                 int kv_head, int row_begin, int row_end, float* scratch) {
  const int group = rows.q_heads / layout.kv_heads;
  const int heads_together = smaller(group, kAttentionTileVectors);
  const int rows_together = larger(1, kAttentionTileVectors / group);
  Tile<Elements> tile{
      .layout = layout,
      .head_base = layer_kv + layout.offset(0, 0, kv_head),
      .block_stride = layout.head_block_bytes() * static_cast<std::size_t>(layout.kv_heads),
      .blocks = rows.blocks,
      .vectors = {},
      .count = 0,
      .scores = scratch,
      .queries = scratch + kAttentionTileVectors * kAttentionChunk,
      .weighted = scratch + kAttentionTileVectors * (kAttentionChunk + layout.head_dim),
  };
  for (int head = 0; head < group; head += heads_together) {
    const int heads = smaller(heads_together, group - head);
    for (int row = row_begin; row < row_end; row += rows_together) {
      tile.count = 0;
      for (int r = row; r < smaller(row + rows_together, row_end); ++r) {
        for (int h = 0; h < heads; ++h) {
          const std::size_t column = static_cast<std::size_t>(kv_head * group + head + h) *
                                     static_cast<std::size_t>(layout.head_dim);
          tile.vectors[tile.count++] = {
              rows.q + static_cast<std::size_t>(r) * rows.q_stride + column,
              rows.out + static_cast<std::size_t>(r) * rows.out_stride + column,
              rows.first_position + r + 1, -std::numeric_limits<float>::infinity(), 0.0F};
        }
      }
      attend_tile(tile);
    }
  }
}

}  // namespace

void attend(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
            int kv_head, int row_begin, int row_end, float* scratch) {
  assert(rows.q_heads % layout.kv_heads == 0 && "query heads form equal groups");
  assert(row_begin >= 0 && row_end <= rows.rows && "rows of this sequence");
  assert(layout.head_dim % 8 == 0 && "whole vectors");
  if (layout.type == KvType::F16) {
    attend_rows<HalfElements>(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
  } else {
    attend_rows<FloatElements>(layout, layer_kv, rows, kv_head, row_begin, row_end, scratch);
  }
}

}  // namespace turnstile::kernels::avx2
