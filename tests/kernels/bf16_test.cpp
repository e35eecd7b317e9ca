// Numerics::Bf16: rounding, the Scalar definition, and the AMX tiles against it bit for bit: on
// emulated instructions, and on the CPU's own where it has them.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "tests/kernels/products.h"
#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"
#if defined(TURNSTILE_TEST_EMULATED_AVX512)
#include "tests/kernels/emulated_amx_bf16.h"
#endif

namespace turnstile::kernels {
namespace {

const KernelTable& scalar() { return kernel_table(Level::Scalar, Numerics::Bf16); }

// The tables that must agree with the scalar one.
std::vector<const KernelTable*> tile_tables() {
  std::vector<const KernelTable*> tables;
#if defined(TURNSTILE_TEST_EMULATED_AVX512)
  tables.push_back(&emulated_amx_bf16_table());
#endif
  if (level_supported(Level::Amx) && has_numerics(Level::Amx, Numerics::Bf16)) {
    tables.push_back(&kernel_table(Level::Amx, Numerics::Bf16));
  }
  return tables;
}

class Bf16Tiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tile_tables().empty()) {
      GTEST_SKIP() << "this CPU has no AMX tiles of bf16, and sanitizer builds emulate none";
    }
  }
};

void expect_scalar_bits(const RandomMatrix& matrix, RandomActivations& x, OutputMode mode) {
  scalar().quantize(x.view(), 0, x.rows);
  const std::vector<float> expected = product(scalar(), matrix.view(), x.view(), mode, 0.7F);
  for (const KernelTable* table : tile_tables()) {
    SCOPED_TRACE(trace_of(*table) + ", type " + name_of(matrix.type) + ", " +
                 std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) + ", " +
                 std::to_string(x.rows) + " activation rows");
    const std::vector<float> out = product(*table, matrix.view(), x.view(), mode, 0.7F);
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0);
  }
}

TEST(Bf16, RoundsToNearestEvenAndSmallValuesToZero) {
  const struct {
    float value;
    std::uint16_t bf16;
  } cases[] = {
      {0.0F, 0},
      {-0.0F, 0},
      {1.0F, 0x3f80},
      {-2.5F, 0xc020},
      {1.0F + 0x1p-8F, 0x3f80},              // a tie: down to even
      {1.0F + 0x1p-7F + 0x1p-8F, 0x3f82},    // a tie: up to even
      {1.0F + 0x1p-8F + 0x1p-20F, 0x3f81},   // just above a tie
      {-1.0F - 0x1p-8F - 0x1p-20F, 0xbf81},
      {2.0F - 0x1p-23F, 0x4000},             // into the next power of two
      {0x1p-50F, 0x2680},
      {-0x1p-50F, 0xa680},
      {0x1p-50F - 0x1p-74F, 0},              // below the smallest, although it rounds up to it
      {std::numeric_limits<float>::denorm_min(), 0},
      {65504.0F, 0x4780},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(float_to_bf16(each.value), each.bf16) << each.value;
  }
  EXPECT_EQ(bf16_to_float(0xc020), -2.5F);
  EXPECT_EQ(bf16_stride(1), 32);
  EXPECT_EQ(bf16_stride(64), 64);
}

TEST_F(Bf16Tiles, QuantiseLikeTheScalarLevel) {
  std::mt19937 random(1);
  for (const int cols : {1, 31, 32, 40, 96, 577}) {
    RandomActivations expected(5, cols, random);
    for (std::size_t i = 0; i < expected.f32.size(); ++i) {
      expected.f32[i] *= std::exp2(static_cast<float>(static_cast<int>(i % 170) - 140));
    }
    RandomActivations actual = expected;
    scalar().quantize(expected.view(), 0, 5);
    for (const KernelTable* table : tile_tables()) {
      table->quantize(actual.view(), 0, 2);
      table->quantize(actual.view(), 2, 5);
      EXPECT_EQ(actual.bf16, expected.bf16) << trace_of(*table) << ", " << cols << " columns";
    }
  }
}

// Even and odd columns are chains of their own: 2^24 + 1 is 2^24 in the even one, 1 + 1 is 2 in
// the odd one, and the two blocks of 32 columns are added one after the other.
TEST(Bf16, ReducesInTheOrderOfTheInstruction) {
  std::vector<float> file(64, 1.0F);
  std::vector<std::byte> panels(panel_bytes(WeightType::F32, 1, 64));
  pack_panels(FileType::F32, reinterpret_cast<const std::byte*>(file.data()), 1, 64, 0, 1,
              panels.data());
  std::mt19937 random(1);
  RandomActivations x(1, 64, random);
  x.f32.assign(64, 0.0F);
  x.f32[0] = 0x1p24F;
  x.f32[1] = x.f32[2] = x.f32[3] = x.f32[4] = 1.0F;
  x.f32[33] = -0x1p24F;
  std::vector<const KernelTable*> tables = tile_tables();
  tables.push_back(&scalar());
  for (const KernelTable* table : tables) {
    SCOPED_TRACE(trace_of(*table));
    table->quantize(x.view(), 0, 1);
    EXPECT_EQ(product(*table, {WeightType::F32, 1, 64, panels.data()}, x.view())[0], 2.0F);
  }
}

// Weights and activations lose at most 2^-9 of their size each.
TEST(Bf16, IsCloseToTheProductInDoubleForEveryFormat) {
  std::mt19937 random(2);
  for (const FileType type : kAllFileTypes) {
    SCOPED_TRACE(name_of(type));
    const RandomMatrix matrix(type, 40, 192, random);
    RandomActivations x(3, matrix.cols, random);
    scalar().quantize(x.view(), 0, x.rows);
    expect_close_to_double(matrix.view(), x.view(), product(scalar(), matrix.view(), x.view()),
                           1.0 / 250.0);
  }
}

// Groups of 32 rows in tiles of 16, none of them full.
TEST_F(Bf16Tiles, EveryNumberOfRowsHasTheBitsOfTheScalarLevel) {
  std::mt19937 random(3);
  const RandomMatrix matrix(FileType::Q4_1, 33, 96, random);
  for (int rows = 1; rows <= 33; ++rows) {
    RandomActivations x(rows, 96, random);
    expect_scalar_bits(matrix, x, rows % 2 == 0 ? OutputMode::Store : OutputMode::Add);
  }
  RandomActivations x(67, 96, random);
  expect_scalar_bits(matrix, x, OutputMode::Store);
}

// One panel and two, the last of them whole or with a single output.
TEST_F(Bf16Tiles, EveryNumberOfOutputsHasTheBitsOfTheScalarLevel) {
  std::mt19937 random(4);
  for (const int outputs : {1, 15, 16, 17, 31, 32, 33, 48, 49}) {
    const RandomMatrix matrix(FileType::Q8_0, outputs, 64, random);
    RandomActivations x(18, 64, random);
    expect_scalar_bits(matrix, x, OutputMode::Store);
  }
}

// 48 blocks are a segment.
TEST_F(Bf16Tiles, EveryNumberOfSegmentsHasTheBitsOfTheScalarLevel) {
  std::mt19937 random(5);
  for (const int blocks : {1, 2, 47, 48, 49, 96, 97}) {
    const RandomMatrix matrix(FileType::Q5_0, 17, 32 * blocks, random);
    RandomActivations x(18, matrix.cols, random);
    expect_scalar_bits(matrix, x, blocks % 2 == 0 ? OutputMode::Store : OutputMode::Add);
  }
}

TEST_F(Bf16Tiles, EveryFormatHasTheBitsOfTheScalarLevel) {
  std::mt19937 random(6);
  for (const FileType type : kAllFileTypes) {
    // The second width ends within 32 columns where the format lets it.
    for (const int cols : {256, 72}) {
      const RandomMatrix matrix(type, 40, cols, random);
      RandomActivations x(20, matrix.cols, random);
      expect_scalar_bits(matrix, x, OutputMode::Store);
    }
  }
}

// 512 rows wait between segments; one more begins anew.
TEST_F(Bf16Tiles, MoreRowsThanWaitBetweenSegmentsHaveTheBitsOfTheScalarLevel) {
  std::mt19937 random(7);
  const RandomMatrix matrix(FileType::Q8_0, 3, 32 * 49, random);
  RandomActivations x(513, matrix.cols, random);
  expect_scalar_bits(matrix, x, OutputMode::Store);
}

// Products and sums of the smallest values that are not zero: a CPU that flushes denormals must
// find none.
TEST_F(Bf16Tiles, SmallestValuesHaveTheBitsOfTheScalarLevel) {
  std::mt19937 random(8);
  RandomMatrix matrix(FileType::F32, 16, 64, random);
  for (std::size_t at = 0; at < matrix.file.size(); at += sizeof(float)) {
    const float value = random_floats(1, random)[0] * 0x1p-50F;
    std::memcpy(matrix.file.data() + at, &value, sizeof value);
  }
  pack_panels(FileType::F32, matrix.file.data(), 16, 64, 0, 1, matrix.panels.data());
  RandomActivations x(16, 64, random);
  for (float& value : x.f32) value *= 0x1p-49F;
  expect_scalar_bits(matrix, x, OutputMode::Store);
}

// What a chunk's rows become does not depend on how many there are, nor on the ranges that work is
// cut into.
TEST_F(Bf16Tiles, RowBitsDependOnTheRowAlone) {
  std::mt19937 random(9);
  for (const KernelTable* table : tile_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const FileType type : {FileType::Q4_K, FileType::Q6_K, FileType::F16}) {
      const RandomMatrix matrix(type, 70, 512, random);
      const PanelMatrix w = matrix.view();
      RandomActivations x(45, matrix.cols, random);
      table->quantize(x.view(), 0, x.rows);
      const std::vector<float> together = product(*table, w, x.view());
      std::vector<float> apart(together.size());
      for (int first = 0; first < x.rows;) {
        const int count = std::min(x.rows - first, pick(random, 1, 20));
        for (int panel = 0; panel < w.panel_count();) {
          const int end = std::min(w.panel_count(), panel + pick(random, 1, 3));
          table->matmul(w, x.view(first, count), panel, end,
                        apart.data() + static_cast<std::size_t>(first * w.rows),
                        static_cast<std::size_t>(w.rows), OutputMode::Store);
          panel = end;
        }
        first += count;
      }
      EXPECT_EQ(std::memcmp(together.data(), apart.data(), apart.size() * sizeof(float)), 0);
    }
  }
}

TEST_F(Bf16Tiles, WriteOnlyTheOutputsOfTheirPanels) {
  std::mt19937 random(10);
  const RandomMatrix matrix(FileType::Q4_0, 60, 64, random);
  RandomActivations x(19, matrix.cols, random);
  scalar().quantize(x.view(), 0, x.rows);
  for (const KernelTable* table : tile_tables()) {
    std::vector<float> out(19 * 70, 9.0F);
    table->matmul(matrix.view(), x.view(), 1, 2, out.data(), 70, OutputMode::Store);
    table->matmul(matrix.view(), x.view(), 3, 4, out.data(), 70, OutputMode::Store);
    table->matmul(matrix.view(), x.view(0, 0), 0, 4, out.data(), 70, OutputMode::Store);
    table->matmul(matrix.view(), x.view(), 2, 2, out.data(), 70, OutputMode::Store);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t column = i % 70;
      const bool written = (column >= 16 && column < 32) || (column >= 48 && column < 60);
      ASSERT_EQ(out[i] == 9.0F, !written) << trace_of(*table) << ", row " << i / 70 << " column "
                                          << column;
    }
  }
}

TEST(Bf16Hardware, TilesOfThisCpuWereTested) {
  if (!level_supported(Level::Amx) || !has_numerics(Level::Amx, Numerics::Bf16)) {
    GTEST_SKIP() << "this CPU has no AMX tiles of bf16: only the emulated ones were tested";
  }
  EXPECT_EQ(kernel_table(Level::Amx, Numerics::Bf16).level, Level::Amx);
  EXPECT_EQ(kernel_table(Level::Amx, Numerics::Bf16).numerics, Numerics::Bf16);
}

}  // namespace
}  // namespace turnstile::kernels
