#include "kernels/half_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace turnstile::kernels {
namespace {

TEST(HalfFloat, EveryHalfSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits <= 0xffffU; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
}

TEST(HalfFloat, HasTheValuesOfTheStandard) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(half_to_float(0xc000), -2.0F);
  EXPECT_EQ(half_to_float(0x7bff), kLargestHalf);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14F);
  EXPECT_EQ(half_to_float(0x3555), 0.333251953125F);
  EXPECT_EQ(half_to_float(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::bit_cast<std::uint32_t>(half_to_float(0x8000)), 0x80000000U);
}

TEST(HalfFloat, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3c00);             // half way: down to even
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3c02);         // half way: up to even
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F + 0x1p-20F), 0x3c01);  // just above
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25F), 0x0000);
  EXPECT_EQ(float_to_half(0x1.8p-25F), 0x0001);
  EXPECT_EQ(float_to_half(-0x1p-24F), 0x8001);
  EXPECT_EQ(float_to_half(1e30F), 0x7c00);
}

}  // namespace
}  // namespace turnstile::kernels
