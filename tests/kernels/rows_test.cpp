// Quantisation, norm, rotary positions, gate and KV writes, on every level.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/half_float.h"
#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"

namespace turnstile::kernels {
namespace {

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables = tested_tables();
  tables.push_back(&kernel_table(Level::Scalar, Numerics::Float32));
  return tables;
}

TEST(Quantize, HasTheHandComputedValues) {
  std::mt19937 random(1);
  RandomActivations x(1, 64, random);
  x.f32.assign(64, 0.0F);
  x.f32[0] = 254.0F;   // scale 2
  x.f32[1] = -254.0F;
  x.f32[2] = 3.0F;     // 1.5 rounds to even 2
  x.f32[3] = 5.0F;     // 2.5 rounds to even 2
  x.f32[31] = -7.0F;   // -3.5 rounds to even -4
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    table->quantize(x.view(), 0, 1);
    EXPECT_EQ(x.scale[0], 2.0F);
    EXPECT_EQ(x.q[0], 127);
    EXPECT_EQ(x.q[1], -127);
    EXPECT_EQ(x.q[2], 2);
    EXPECT_EQ(x.q[3], 2);
    EXPECT_EQ(x.q[31], -4);
    EXPECT_EQ(x.sum[0], 0);
    EXPECT_EQ(x.scaled_sum[0], 0.0F);
    EXPECT_EQ(x.scale[1], 0.0F);  // the second block is all zeros
    EXPECT_EQ(x.scaled_sum[1], 0.0F);
    EXPECT_EQ(x.q[40], 0);
  }
}

TEST(Quantize, EveryLevelHasTheBitsOfScalarInt8) {
  std::mt19937 random(2);
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    RandomActivations expected(33, 1536, random);
    for (std::size_t i = 0; i < expected.f32.size(); ++i) {
      expected.f32[i] *= std::exp2(static_cast<float>(static_cast<int>(i / 32) % 120 - 90));
    }
    RandomActivations actual = expected;
    kernel_table(Level::Scalar, Numerics::Int8).quantize(expected.view(), 0, 33);
    table->quantize(actual.view(), 0, 20);
    table->quantize(actual.view(), 20, 33);
    EXPECT_EQ(actual.q, expected.q);
    EXPECT_EQ(actual.scale, expected.scale);
    EXPECT_EQ(actual.sum, expected.sum);
    EXPECT_EQ(actual.scaled_sum, expected.scaled_sum);
  }
}

TEST(RmsNorm, IsCloseToTheDoubleReferenceAndMayWorkInPlace) {
  std::mt19937 random(3);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const int n : {1, 7, 8, 15, 16, 17, 24, 31, 32, 33, 64, 576, 1000}) {
      std::vector<float> x = random_floats(static_cast<std::size_t>(n), random);
      const std::vector<float> weight = random_floats(static_cast<std::size_t>(n), random);
      double squares = 0.0;
      for (const double value : x) squares += value * value;
      const double factor = 1.0 / std::sqrt(squares / n + 1e-5);
      std::vector<float> out(x.size());
      table->rms_norm(x.data(), weight.data(), n, 1e-5F, out.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(out[i], static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]),
                    2e-6 * (1.0 + std::abs(static_cast<double>(out[i]))));
      }
      table->rms_norm(x.data(), weight.data(), n, 1e-5F, x.data());
      EXPECT_EQ(x, out);
    }
  }
}

TEST(Rope, TurnsNeighboursByTheAngleOfTheirPair) {
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    // Two heads of 16, of which 12 dimensions rotate: pair i by a quarter turn when i is even.
    std::vector<float> row(32);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i + 1);
    const std::vector<float> before = row;
    std::vector<float> cos(6), sin(6);
    for (std::size_t i = 0; i < 6; ++i) {
      cos[i] = i % 2 == 0 ? 0.0F : 1.0F;
      sin[i] = i % 2 == 0 ? 1.0F : 0.0F;
    }
    table->rope(row.data(), 2, 16, 12, cos.data(), sin.data());
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t at = head * 16 + 2 * i;
        const bool turned = i < 6 && i % 2 == 0;
        EXPECT_EQ(row[at], turned ? -before[at + 1] : before[at]) << at;
        EXPECT_EQ(row[at + 1], turned ? before[at] : before[at + 1]) << at;
      }
    }
  }
}

TEST(Rope, KeepsLengthsAndAddsAngles) {
  std::mt19937 random(4);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<float> once = random_floats(3 * 64, random);
    std::vector<float> twice = once;
    std::vector<float> cos(32), sin(32), cos2(32), sin2(32);
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = 0.1 * static_cast<double>(i + 1);
      cos[i] = static_cast<float>(std::cos(angle));
      sin[i] = static_cast<float>(std::sin(angle));
      cos2[i] = static_cast<float>(std::cos(2 * angle));
      sin2[i] = static_cast<float>(std::sin(2 * angle));
    }
    table->rope(twice.data(), 3, 64, 64, cos.data(), sin.data());
    table->rope(twice.data(), 3, 64, 64, cos.data(), sin.data());
    table->rope(once.data(), 3, 64, 64, cos2.data(), sin2.data());
    for (std::size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(once[i], twice[i], 2e-6);
  }
}

// Four pairs are a register.
TEST(Rope, EveryNumberOfPairs) {
  std::mt19937 random(8);
  for (const KernelTable* table : all_tables()) {
    for (int pairs = 1; pairs <= 13; ++pairs) {
      const std::vector<float> before = random_floats(3 * 32, random);
      const std::vector<float> angles = random_floats(static_cast<std::size_t>(pairs), random);
      std::vector<float> cos, sin;
      for (const float angle : angles) {
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
      std::vector<float> row = before;
      table->rope(row.data(), 3, 32, 2 * pairs, cos.data(), sin.data());
      for (std::size_t at = 0; at < row.size(); at += 2) {
        const std::size_t i = at % 32 / 2;
        const bool turns = i < angles.size();
        const auto c = static_cast<double>(turns ? cos[i] : 1.0F);
        const auto s = static_cast<double>(turns ? sin[i] : 0.0F);
        const double even = static_cast<double>(before[at]);
        const double odd = static_cast<double>(before[at + 1]);
        ASSERT_NEAR(row[at], even * c - odd * s, 1e-6) << trace_of(*table) << ", " << pairs;
        ASSERT_NEAR(row[at + 1], even * s + odd * c, 1e-6) << trace_of(*table) << ", " << pairs;
      }
    }
  }
}

TEST(Swiglu, IsCloseToTheDoubleReferenceOverTheWholeRange) {
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<float> gate, up, out;
    for (float g = -120.0F; g <= 120.0F; g += 0.37F) {
      gate.push_back(g);
      up.push_back(1.5F - g / 50.0F);
    }
    out.resize(gate.size());
    table->swiglu(gate.data(), up.data(), static_cast<int>(gate.size()), out.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = static_cast<double>(gate[i]);
      const double expected = g / (1.0 + std::exp(-g)) * static_cast<double>(up[i]);
      ASSERT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-30) << g;
    }
  }
}

TEST(Swiglu, BitsDoNotDependOnTheRangeAndItMayWorkInPlace) {
  std::mt19937 random(5);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<float> gate = random_floats(203, random);
    const std::vector<float> up = random_floats(203, random);
    std::vector<float> whole(203);
    table->swiglu(gate.data(), up.data(), 203, whole.data());
    for (int first = 0; first < 203;) {
      const int count = std::min(203 - first, pick(random, 1, 40));
      table->swiglu(gate.data() + first, up.data() + first, count, gate.data() + first);
      first += count;
    }
    EXPECT_EQ(gate, whole);
  }
}

KvLayout small_layout(KvType type, int head_dim) {
  return {.type = type, .layers = 2, .kv_heads = 3, .head_dim = head_dim, .block_count = 4};
}

TEST(KvWrite, PutsKeysByDimensionAndValuesByPosition) {
  std::mt19937 random(6);
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const KvType type : {KvType::F16, KvType::F32}) {
      const KvLayout layout = small_layout(type, 24);
      std::vector<std::byte> pool(layout.pool_bytes());
      const std::vector<float> k = random_floats(72, random);
      const std::vector<float> v = random_floats(72, random);
      std::byte* layer = pool.data() + layout.offset(1, 0, 0);
      table->kv_write(layout, layer, 2, 5, k.data(), v.data());
      std::size_t nonzero = 0;
      for (const std::byte byte : pool) nonzero += byte != std::byte{0};
      EXPECT_LE(nonzero, 2 * 72 * layout.element_bytes());
      const auto stored = [&](int head, std::size_t index) {
        const std::byte* at = pool.data() + layout.offset(1, 2, head) +
                              index * layout.element_bytes();
        float value = 0.0F;
        std::uint16_t half = 0;
        std::memcpy(&half, at, 2);
        if (type == KvType::F32) std::memcpy(&value, at, 4);
        return type == KvType::F16 ? half_to_float(half) : value;
      };
      const auto rounded = [type](float value) {
        return type == KvType::F16 ? half_to_float(float_to_half(value)) : value;
      };
      for (int head = 0; head < 3; ++head) {
        for (std::size_t d = 0; d < 24; ++d) {
          const std::size_t from = static_cast<std::size_t>(head) * 24 + d;
          EXPECT_EQ(stored(head, d * 16 + 5), rounded(k[from]));
          EXPECT_EQ(stored(head, 24 * 16 + 5 * 24 + d), rounded(v[from]));
        }
      }
    }
  }
}

TEST(KvWrite, PutsBytesInPairsWithAScaleForEachHeadOfAPosition) {
  std::mt19937 random(7);
  const KvLayout layout = small_layout(KvType::Int8, 24);
  const std::vector<float> k = random_floats(72, random);
  std::vector<float> v = random_floats(72, random);
  std::fill_n(v.begin() + 24, 24, 0.0F);  // a head of zeros has no scale
  constexpr std::size_t kSlot = 5;
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<std::byte> pool(layout.pool_bytes());
    table->kv_write(layout, pool.data() + layout.offset(1, 0, 0), 2, kSlot, k.data(), v.data());
    for (int head = 0; head < 3; ++head) {
      const std::byte* keys = pool.data() + layout.offset(1, 2, head);
      const std::byte* values = keys + 24 * 16;
      float scales[32];
      std::memcpy(scales, values + 24 * 16, sizeof scales);
      const auto check = [&](const std::vector<float>& from, std::size_t d, float scale,
                             std::byte byte) {
        const auto first = from.begin() + head * 24;
        float largest = 0.0F;
        for (auto at = first; at != first + 24; ++at) largest = std::max(largest, std::fabs(*at));
        EXPECT_EQ(scale, largest / 127.0F);
        const float inverse = largest == 0.0F ? 0.0F : 127.0F / largest;
        const float value = first[static_cast<std::ptrdiff_t>(d)];
        EXPECT_EQ(static_cast<int>(static_cast<std::int8_t>(byte)),
                  static_cast<int>(std::nearbyint(value * inverse)));
      };
      for (std::size_t d = 0; d < 24; ++d) {
        check(k, d, scales[kSlot], keys[d / 2 * 32 + kSlot * 2 + d % 2]);
        check(v, d, scales[16 + kSlot], values[kSlot / 2 * 48 + d * 2 + kSlot % 2]);
      }
      for (std::size_t slot = 0; slot < 16; ++slot) {
        if (slot == kSlot) continue;
        EXPECT_EQ(scales[slot] + scales[16 + slot], 0.0F);
      }
    }
  }
}

// A block is reused by other owners, who multiply what they have not written by zero.
TEST(KvWrite, NeverLetsInfinityOrNanIntoAnInt8Cache) {
  const KvLayout layout = small_layout(KvType::Int8, 16);
  std::vector<float> k(48, std::numeric_limits<float>::infinity());
  std::vector<float> v(48, std::numeric_limits<float>::quiet_NaN());
  k[1] = -1e9F;
  v[1] = 70000.0F;
  std::vector<std::byte> first;
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<std::byte> pool(layout.pool_bytes());
    table->kv_write(layout, pool.data(), 1, 3, k.data(), v.data());
    float scales[32];
    std::memcpy(scales, pool.data() + layout.offset(0, 1, 0) + 2 * 16 * 16, sizeof scales);
    EXPECT_EQ(scales[3], 65504.0F / 127.0F);
    EXPECT_EQ(scales[16 + 3], 65504.0F / 127.0F);
    if (first.empty()) first = pool;
    EXPECT_EQ(pool, first);
  }
}

// The same for halves.
TEST(KvWrite, NeverLetsInfinityOrNanIntoAHalfCache) {
  const KvLayout layout = small_layout(KvType::F16, 16);
  std::vector<float> k(48, std::numeric_limits<float>::infinity());
  std::vector<float> v(48, std::numeric_limits<float>::quiet_NaN());
  k[1] = -1e9F;
  v[1] = 70000.0F;
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(trace_of(*table));
    std::vector<std::byte> pool(layout.pool_bytes());
    table->kv_write(layout, pool.data(), 1, 3, k.data(), v.data());
    for (std::size_t at = 0; at < pool.size(); at += 2) {
      std::uint16_t half = 0;
      std::memcpy(&half, pool.data() + at, 2);
      ASSERT_TRUE(std::isfinite(half_to_float(half))) << at;
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels
