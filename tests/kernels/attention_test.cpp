#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention_parts.h"
#include "kernels/half_float.h"
#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"
#include "tests/support/repeats.h"

namespace turnstile::kernels {
namespace {

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables = tested_tables();
  tables.push_back(&kernel_table(Level::Scalar, Numerics::Float32));
  return tables;
}

// A sequence in a shuffled pool whose unused slots hold large numbers, as after another owner.
struct Sequence {
  Sequence(KvType type, int kv_heads, int group, int head_dim, int positions, std::mt19937& random)
      : layout{.type = type,
               .layers = 1,
               .kv_heads = kv_heads,
               .head_dim = head_dim,
               .block_count = static_cast<std::size_t>(positions / kKvBlockTokens + 3)},
        q_heads(kv_heads * group),
        length(positions),
        pool(layout.pool_bytes()),
        blocks(layout.block_count),
        k(random_floats(static_cast<std::size_t>(positions * kv_heads * head_dim), random)),
        v(random_floats(k.size(), random)),
        q(random_floats(static_cast<std::size_t>(positions * q_heads * head_dim), random)) {
    std::iota(blocks.begin(), blocks.end(), 0U);
    std::shuffle(blocks.begin(), blocks.end(), random);
    write();
  }

  // K and V of all positions, and large numbers behind them.
  void write() {
    const auto kv_row = static_cast<std::size_t>(layout.kv_heads * layout.head_dim);
    const KernelTable& scalar = kernel_table(Level::Scalar, Numerics::Int8);
    const std::vector<float> stale(kv_row, 500.0F);
    for (std::size_t i = 0; i < layout.block_count * kKvBlockTokens; ++i) {
      const bool used = static_cast<int>(i) < length;
      const std::size_t at = i * kv_row;
      scalar.kv_write(layout, pool.data(), blocks[i / kKvBlockTokens],
                      static_cast<int>(i % kKvBlockTokens), used ? k.data() + at : stale.data(),
                      used ? v.data() + at : stale.data());
    }
  }

  std::size_t row_floats() const { return static_cast<std::size_t>(q_heads * layout.head_dim); }

  // Attention of rows [first, first + count) in one call a kv head, or in the given pieces.
  std::vector<float> attend(const KernelTable& table, int first, int count, int piece) const {
    std::vector<float> out(static_cast<std::size_t>(count) * row_floats(), -1.0F);
    std::vector<float> scratch(attention_scratch_floats(layout.head_dim));
    const AttentionRows rows{.q = q.data() + static_cast<std::size_t>(first) * row_floats(),
                             .q_stride = row_floats(),
                             .out = out.data(),
                             .out_stride = row_floats(),
                             .rows = count,
                             .q_heads = q_heads,
                             .first_position = first,
                             .blocks = blocks.data()};
    for (int head = 0; head < layout.kv_heads; ++head) {
      for (int row = 0; row < count; row += piece) {
        std::fill(scratch.begin(), scratch.end(), 7.0F);
        table.attend(layout, pool.data(), rows, head, row, std::min(count, row + piece),
                     scratch.data());
      }
    }
    return out;
  }

  // Rows [first, first + count) cut into ranges of chunks, merged afterwards.
  std::vector<float> attend_in_parts(const KernelTable& table, int first, int count,
                                     const std::vector<int>& cuts) const {
    std::vector<float> out(static_cast<std::size_t>(count) * row_floats(), -1.0F);
    const int chunks = attention_chunks(first + count);
    std::vector<float> parts(static_cast<std::size_t>(count * q_heads * chunks) *
                             attention_part_floats(layout.head_dim));
    std::vector<float> scratch(attention_scratch_floats(layout.head_dim));
    AttentionRows rows{.q = q.data() + static_cast<std::size_t>(first) * row_floats(),
                       .q_stride = row_floats(),
                       .out = out.data(),
                       .out_stride = row_floats(),
                       .rows = count,
                       .q_heads = q_heads,
                       .first_position = first,
                       .blocks = blocks.data(),
                       .parts = parts.data(),
                       .part_chunks = chunks};
    for (std::size_t i = cuts.size(); i > 1; --i) {  // the last range first: order is free
      rows.chunk_begin = cuts[i - 2];
      rows.chunk_end = cuts[i - 1];
      for (int head = 0; head < layout.kv_heads; ++head) {
        table.attend(layout, pool.data(), rows, head, 0, count, scratch.data());
      }
    }
    for (int row = 0; row < count; ++row) merge_attention_parts(layout, rows, row);
    return out;
  }

  // What the pool holds of values, in double.
  std::vector<double> stored(const std::vector<float>& values) const {
    std::vector<double> out;
    for (std::size_t at = 0; at < values.size(); ++at) {
      if (layout.type != KvType::Int8) {
        const float half = half_to_float(float_to_half(values[at]));
        out.push_back(static_cast<double>(layout.type == KvType::F16 ? half : values[at]));
        continue;
      }
      const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
      const auto head = values.begin() + static_cast<std::ptrdiff_t>(at / dim * dim);
      float largest = 0.0F;
      for (auto value = head; value != head + layout.head_dim; ++value) {
        largest = std::max(largest, std::fabs(*value));
      }
      out.push_back(std::nearbyint(values[at] * (127.0F / largest)) *
                    static_cast<double>(largest / 127.0F));
    }
    return out;
  }

  // One query head of one row in double, on the K and V that the pool holds.
  std::vector<double> reference(int row, int head, const std::vector<double>& stored_k,
                                const std::vector<double>& stored_v) const {
    const std::size_t dim = static_cast<std::size_t>(layout.head_dim);
    const std::size_t kv_row = static_cast<std::size_t>(layout.kv_heads) * dim;
    const std::size_t kv = static_cast<std::size_t>(head / (q_heads / layout.kv_heads)) * dim;
    const float* query = q.data() + static_cast<std::size_t>(row) * row_floats() +
                         static_cast<std::size_t>(head) * dim;
    std::vector<double> weights;
    for (std::size_t p = 0; p <= static_cast<std::size_t>(row); ++p) {
      double score = 0.0;
      for (std::size_t d = 0; d < dim; ++d) {
        score += static_cast<double>(query[d]) * stored_k[p * kv_row + kv + d];
      }
      weights.push_back(score / std::sqrt(static_cast<double>(dim)));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double total = 0.0;
    for (double& weight : weights) total += weight = std::exp(weight - largest);
    std::vector<double> out(dim);
    for (std::size_t p = 0; p < weights.size(); ++p) {
      for (std::size_t d = 0; d < dim; ++d) {
        out[d] += weights[p] / total * stored_v[p * kv_row + kv + d];
      }
    }
    return out;
  }

  KvLayout layout;
  int q_heads;
  int length;
  std::vector<std::byte> pool;
  std::vector<BlockId> blocks;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> q;
};

KvType type_of(int round) {
  return std::array{KvType::F32, KvType::F16, KvType::Int8}[static_cast<std::size_t>(round % 3)];
}

// The tests' own loops take most of the time of a build with the address sanitizer.
constexpr int kLongest = tests::kAddressSanitizer ? 300 : 700;  // more than one chunk either way

// Tolerance: outputs are means of unit normals; float sums over 700 positions and 128 dimensions
// and an exp with 2e-7 relative error stay well below 1e-5. Beside an Int8 cache queries and
// weights are rounded to 1/32,767 of their largest, which moves a score by at most a few 1e-4.
TEST(Attention, IsCloseToTheDoubleReference) {
  std::mt19937 random(21);
  for (int round = 0; round < (tests::kAddressSanitizer ? 8 : 16); ++round) {
    const int group = 1 + round % 8;
    const int head_dim = 8 * pick(random, 1, 16);
    const int length = pick(random, 1, kLongest);
    const Sequence sequence(type_of(round), pick(random, 1, 3), group, head_dim, length, random);
    const double bound = sequence.layout.type == KvType::Int8 ? 4e-4 : 1e-5;
    const int count = std::min(length, pick(random, 1, 20));
    const int first = length - count;
    const std::vector<double> stored_k = sequence.stored(sequence.k);
    const std::vector<double> stored_v = sequence.stored(sequence.v);
    for (const KernelTable* table : all_tables()) {
      SCOPED_TRACE(trace_of(*table));
      const std::vector<float> out = sequence.attend(*table, first, count, count);
      for (int check = 0; check < (tests::kAddressSanitizer ? 2 : 6); ++check) {
        const int row = pick(random, 0, count - 1);
        const int head = pick(random, 0, sequence.q_heads - 1);
        const std::vector<double> expected =
            sequence.reference(first + row, head, stored_k, stored_v);
        for (std::size_t d = 0; d < expected.size(); ++d) {
          ASSERT_NEAR(out[static_cast<std::size_t>(row) * sequence.row_floats() +
                          static_cast<std::size_t>(head * head_dim) + d],
                      expected[d], bound)
              << "length " << length << " group " << group << " head_dim " << head_dim;
        }
      }
    }
  }
}

TEST(Attention, OnePositionReturnsItsValue) {
  std::mt19937 random(22);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    const Sequence sequence(KvType::F32, 2, 3, 16, 1, random);
    const std::vector<float> out = sequence.attend(*table, 0, 1, 1);
    for (std::size_t head = 0; head < 6; ++head) {
      for (std::size_t d = 0; d < 16; ++d) {
        EXPECT_EQ(out[head * 16 + d], sequence.v[head / 3 * 16 + d]);
      }
    }
  }
}

// The other half of the bitwise identity promise: prefill in chunks, in tiles, or token by token.
TEST(Attention, RowBitsDependNeitherOnTileNorOnRange) {
  std::mt19937 random(23);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (int round = 0; round < (tests::kAddressSanitizer ? 4 : 10); ++round) {
      const int length = round == 0 ? 520 : pick(random, 1, kLongest);
      const Sequence sequence(round == 0 ? KvType::F16 : type_of(round), 1, 1 + round % 8,
                              8 * pick(random, 1, 9), length, random);
      const int count = std::min(length, 40);
      const int first = round == 0 ? 240 : pick(random, 0, length - count);
      const std::vector<float> together = sequence.attend(*table, first, count, count);
      for (const int piece : {1, 2, 5, 11}) {
        const std::vector<float> pieces = sequence.attend(*table, first, count, piece);
        ASSERT_EQ(std::memcmp(together.data(), pieces.data(), together.size() * sizeof(float)), 0)
            << "length " << length << " first " << first << " piece " << piece;
      }
      const std::vector<float> alone = sequence.attend(*table, first + count - 1, 1, 1);
      ASSERT_EQ(std::memcmp(together.data() + static_cast<std::size_t>(count - 1) *
                                                  sequence.row_floats(),
                            alone.data(), alone.size() * sizeof(float)),
                0);
    }
  }
}

// What a block held before must not show: the same sequence in a zeroed and in a used pool.
TEST(Attention, StaleSlotsDoNotChangeABit) {
  std::mt19937 random(24);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const KvType type : {KvType::F16, KvType::Int8}) {
      Sequence sequence(type, 2, 3, 64, 275, random);
      const std::vector<float> used = sequence.attend(*table, 270, 5, 5);
      std::fill(sequence.pool.begin(), sequence.pool.end(), std::byte{0});
      for (int p = 0; p < 275; ++p) {
        const std::size_t at = static_cast<std::size_t>(p) * 128;
        table->kv_write(sequence.layout, sequence.pool.data(),
                        sequence.blocks[static_cast<std::size_t>(p / kKvBlockTokens)],
                        p % kKvBlockTokens, sequence.k.data() + at, sequence.v.data() + at);
      }
      EXPECT_EQ(sequence.attend(*table, 270, 5, 5), used);
    }
  }
}

// A row may be cut over threads anywhere between chunks: at 1 stream there are few heads to share.
TEST(Attention, PartsOfAnyRangesMergeToTheSameBits) {
  std::mt19937 random(26);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (int round = 0; round < 6; ++round) {
      const int length = round < 3 ? 3 * kAttentionChunk + pick(random, 0, 2) - 1
                                   : pick(random, 1, 4 * kAttentionChunk);
      const Sequence sequence(type_of(round), 1 + round % 2, 1 + round, 8 * pick(random, 1, 9),
                              length, random);
      const int count = std::min(length, 1 + round % 3);
      const int first = length - count;
      std::vector<int> cuts{0};
      while (cuts.back() < attention_chunks(length)) {
        cuts.push_back(cuts.back() + pick(random, 1, 2));  // the last may end behind the last chunk
      }
      EXPECT_EQ(sequence.attend_in_parts(*table, first, count, cuts),
                sequence.attend(*table, first, count, count))
          << "length " << length << " rows " << count;
    }
  }
}

// Beside an Int8 cache every sum of products is an exact integer, and what is done with it is one
// order of operations; the plain loops define it.
TEST(Attention, OverInt8EqualsTheScalarLevelBitForBit) {
  std::mt19937 random(27);
  const KernelTable& scalar = kernel_table(Level::Scalar, Numerics::Int8);
  constexpr int kDims[] = {64, 80, 96, 128, 256, 8, 24, 72};
  constexpr int kLengths[] = {1, 15, 16, 17, 255, 256, 257, 530};
  for (int round = 0; round < 16; ++round) {
    const int head_dim = kDims[round % 8];
    const int length = kLengths[round * 3 % 8];
    Sequence sequence(KvType::Int8, 1 + round % 2, 1 + round % 8, head_dim, length, random);
    if (round == 3) std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
    const int count = std::min(length, pick(random, 1, 13));
    const std::vector<float> expected =
        sequence.attend(scalar, length - count, count, count);
    for (const KernelTable* table : tested_tables()) {
      SCOPED_TRACE(trace_of(*table));
      const std::vector<float> out = sequence.attend(*table, length - count, count, count);
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
          << "length " << length << " rows " << count << " head_dim " << head_dim;
    }
  }
}

// All query heads of rows [first, first + count) at every level.
void expect_close_to_double(const Sequence& sequence, int first, int count) {
  const std::vector<double> k = sequence.stored(sequence.k);
  const std::vector<double> v = sequence.stored(sequence.v);
  const auto dim = static_cast<std::size_t>(sequence.layout.head_dim);
  const double bound = sequence.layout.type == KvType::Int8 ? 4e-4 : 1e-5;
  std::vector<std::vector<double>> expected;
  for (int row = first; row < first + count; ++row) {
    for (int head = 0; head < sequence.q_heads; ++head) {
      expected.push_back(sequence.reference(row, head, k, v));
    }
  }
  for (const KernelTable* table : tested_tables()) {
    const std::vector<float> out = sequence.attend(*table, first, count, count);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i / dim][i % dim], bound)
          << trace_of(*table) << ", " << sequence.q_heads / sequence.layout.kv_heads
          << " heads a group, " << count << " rows, head_dim " << dim << ", length "
          << sequence.length << ", value " << i;
    }
  }
}

// A tile has 12 vectors, which are computed up to 6 or 12 at a time; groups of more than 12 heads
// are several tiles of one row, smaller ones share a tile with other rows.
TEST(AttentionEdges, GroupsOfEverySize) {
  std::mt19937 random(31);
  for (const KvType type : {KvType::F16, KvType::Int8}) {
    for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 24, 25}) {
      const Sequence sequence(type, 2, group, 16, 21, random);
      expect_close_to_double(sequence, 16, 5);
    }
    for (int rows = 1; rows <= 13; ++rows) {
      expect_close_to_double(Sequence(type, 1, 1, 8, 30, random), 30 - rows, rows);
    }
  }
}

// Columns of V are taken 8 or 16 at a time, one to eight of them together.
TEST(AttentionEdges, HeadsOfEverySize) {
  std::mt19937 random(32);
  for (const KvType type : {KvType::F16, KvType::Int8}) {
    for (int head_dim = 8; head_dim <= 136; head_dim += 8) {
      expect_close_to_double(Sequence(type, 1, 1, head_dim, 18, random), 17, 1);
      expect_close_to_double(Sequence(type, 1, 7, head_dim, 18, random), 17, 1);
    }
    for (const int head_dim : {256, kMaxInt8HeadDim}) {
      expect_close_to_double(Sequence(type, 1, 3, head_dim, 18, random), 17, 1);
    }
  }
}

// The ends of registers, blocks and chunks; the last row sees all, those before it a little less.
TEST(AttentionEdges, SequencesOfEveryLength) {
  std::mt19937 random(33);
  for (const KvType type : {KvType::F16, KvType::Int8}) {
    for (const int length : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 239, 240, 241, 255,
                             256, 257, 272, 273, 511, 512, 513}) {
      const int rows = std::min(length, 2);
      expect_close_to_double(Sequence(type, 1, 1, 8, length, random), length - rows, rows);
    }
  }
}

// More positions than 16 bits count, whole and in parts.
TEST(AttentionEdges, ALongContext) {
  if (tests::kAddressSanitizer) GTEST_SKIP() << "the test's own loops take a minute there";
  constexpr int kLength = 65'536 + 300;
  std::mt19937 random(34);
  for (const KvType type : {KvType::F16, KvType::Int8}) {
    Sequence sequence(type, 1, 1, 8, kLength, random);
    // The last positions hold what the query looks for: otherwise no single one would show.
    for (int i = (kLength - 40) * 8; i < kLength * 8; ++i) {
      sequence.k[static_cast<std::size_t>(i)] = sequence.q[static_cast<std::size_t>(
          (kLength - 1) * 8 + i % 8)] * 4.0F;
    }
    sequence.write();
    expect_close_to_double(sequence, kLength - 1, 1);
    for (const KernelTable* table : tested_tables()) {
      EXPECT_EQ(sequence.attend_in_parts(*table, kLength - 1, 1, {0, 100, 256, 258}),
                sequence.attend(*table, kLength - 1, 1, 1))
          << trace_of(*table);
    }
  }
}

// The largest sums beside an Int8 cache: 512 * 127 * 32,767 of a head, 256 * 127 * 32,767 of the
// positions of a chunk, with either sign. Keys of the first half point away from the query.
TEST(AttentionEdges, LargestSumsFit32Bits) {
  std::mt19937 random(35);
  Sequence sequence(KvType::Int8, 1, 1, kMaxInt8HeadDim, 512, random);
  const std::size_t half = sequence.k.size() / 2;
  std::fill(sequence.q.begin(), sequence.q.end(), 1.0F);
  std::fill(sequence.k.begin(), sequence.k.end(), 1.0F);
  std::fill_n(sequence.k.begin(), half, -1.0F);
  std::fill(sequence.v.begin(), sequence.v.end(), -3.0F);
  std::fill_n(sequence.v.begin(), half, 5.0F);
  sequence.write();
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const float value : sequence.attend(*table, 511, 1, 1)) ASSERT_NEAR(value, -3.0F, 1e-4F);
    for (const float value : sequence.attend(*table, 255, 1, 1)) ASSERT_NEAR(value, 5.0F, 1e-4F);
  }
}

// Activations that overflowed somewhere before: the same bits at every level, and numbers.
TEST(AttentionEdges, QueriesThatAreNoNumbersBesideAnInt8Cache) {
  std::mt19937 random(36);
  Sequence sequence(KvType::Int8, 1, 2, 16, 20, random);
  const float wrong[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(), 3e38F};
  for (std::size_t i = 0; i < sequence.q.size(); i += 3) sequence.q[i] = wrong[i % 4];
  const KernelTable& scalar = kernel_table(Level::Scalar, Numerics::Int8);
  const std::vector<float> expected = sequence.attend(scalar, 15, 5, 5);
  for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
  for (const KernelTable* table : tested_tables()) {
    EXPECT_EQ(sequence.attend(*table, 15, 5, 5), expected) << trace_of(*table);
  }
}

TEST(Attention, LargeScoresStayFinite) {
  std::mt19937 random(25);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const KvType type : {KvType::F32, KvType::Int8}) {
      Sequence sequence(type, 1, 1, 64, 300, random);
      for (float& value : sequence.q) value *= 300.0F;
      for (const float value : sequence.attend(*table, 295, 5, 5)) {
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels
