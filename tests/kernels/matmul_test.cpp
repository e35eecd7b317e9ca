#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/products.h"
#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"
#include "tests/support/repeats.h"

namespace turnstile::kernels {
namespace {

constexpr std::size_t kPanelTypes = std::size(kQuantisedPanels);

const KernelTable& scalar() { return kernel_table(Level::Scalar, Numerics::Int8); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string shape_of(const PanelMatrix& w, int tokens) {
  return "type " + std::to_string(static_cast<int>(w.type)) + ", " + std::to_string(w.rows) +
         " x " + std::to_string(w.cols) + ", " + std::to_string(tokens) + " activation rows";
}

// Two rows of weights and one of activations, small enough to check with a pencil.
TEST(Matmul, GivesTheHandComputedProduct) {
  // Q4_0, scale 0.5: column c has nibble c % 16, so value (c % 16 - 8) / 2. Activations are 127 in
  // columns 0 and 16 and -127 in column 31, so the row's scale is 1 and q are the values.
  std::vector<std::byte> file(18);
  file[1] = std::byte{0x38};  // 0.5
  for (std::size_t c = 0; c < 16; ++c) file[2 + c] = static_cast<std::byte>(c * 17);
  std::vector<std::byte> panels(panel_bytes(WeightType::Q4_0, 1, 32));
  pack_panels(FileType::Q4_0, file.data(), 1, 32, 0, 1, panels.data());
  std::mt19937 random(1);
  RandomActivations x(1, 32, random);
  x.f32.assign(32, 0.0F);
  x.f32[0] = x.f32[16] = 127.0F;
  x.f32[31] = -127.0F;
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    table->quantize(x.view(), 0, 1);
    EXPECT_EQ(x.scale[0], 1.0F);
    EXPECT_EQ(x.sum[0], 127);
    EXPECT_EQ(x.scaled_sum[0], 127.0F);
    const PanelMatrix w{WeightType::Q4_0, 1, 32, panels.data()};
    // 127 * -4 + 127 * -4 - 127 * 3.5
    EXPECT_EQ(product(*table, w, x.view())[0], -1460.5F);
  }
}

// A weight at the zero point is nothing, whatever it is multiplied by: the zero point leaves before
// anything is rounded.
TEST(Matmul, WeightsAtTheZeroPointAddExactlyNothing) {
  const auto block = [](std::size_t size, std::size_t high_bits, std::byte weight) {
    std::vector<std::byte> bytes(size, weight);
    bytes[0] = std::byte{0x66};  // a scale of 0.1, which no float holds
    bytes[1] = std::byte{0x2e};
    for (std::size_t i = 0; i < high_bits; ++i) bytes[2 + i] = std::byte{0xff};
    return bytes;
  };
  const std::vector<std::pair<FileType, std::vector<std::byte>>> blocks{
      {FileType::Q8_0, block(34, 0, std::byte{0})},
      {FileType::Q4_0, block(18, 0, std::byte{0x88})},
      {FileType::Q5_0, block(22, 4, std::byte{0})}};
  std::mt19937 random(11);
  RandomActivations x(9, 32, random);
  for (const auto& [type, file] : blocks) {
    std::vector<std::byte> panels(panel_bytes(panel_type(type), 1, 32));
    pack_panels(type, file.data(), 1, 32, 0, 1, panels.data());
    const PanelMatrix w{panel_type(type), 1, 32, panels.data()};
    for (const KernelTable* table : tested_tables()) {
      SCOPED_TRACE(trace_of(*table) + ", type " + name_of(type));
      table->quantize(x.view(), 0, x.rows);
      for (int rows = 1; rows <= x.rows; ++rows) {
        EXPECT_EQ(product(*table, w, x.view(0, rows)), std::vector<float>(rows, 0.0F));
      }
    }
  }
}

// Against dequantised weights in double: the integer path may differ by what int8 activations
// lose, 1/254 of a block's largest value for each of its columns at most.
TEST(Matmul, IsCloseToTheProductInDouble) {
  std::mt19937 random(2);
  for (const FileType type : kAllFileTypes) {
    const RandomMatrix matrix(type, 40, 192, random);
    const auto cols = static_cast<std::size_t>(matrix.cols);
    RandomActivations x(5, matrix.cols, random);
    std::vector<const KernelTable*> tables = tested_tables();
    tables.push_back(&kernel_table(Level::Scalar, Numerics::Float32));
    for (const KernelTable* table : tables) {
      SCOPED_TRACE(trace_of(*table) + ", type " + name_of(type));
      table->quantize(x.view(), 0, x.rows);
      const std::vector<float> out = product(*table, matrix.view(), x.view());
      const bool exact_activations =
          table->numerics == Numerics::Float32 || !is_quantised(panel_type(type));
      std::vector<float> weights(cols);
      for (int row = 0; row < matrix.rows; ++row) {
        dequantize_row(matrix.view(), row, weights.data());
        for (int t = 0; t < x.rows; ++t) {
          double expected = 0.0;
          double allowed = 0.0;
          for (std::size_t c = 0; c < cols; ++c) {
            const std::size_t at = static_cast<std::size_t>(t) * cols + c;
            expected += static_cast<double>(weights[c]) * static_cast<double>(x.f32[at]);
            const double step = static_cast<double>(x.scale[at / 32]) * 0.5;
            const double rounding = 4e-6 * std::abs(static_cast<double>(x.f32[at]));
            allowed += std::abs(static_cast<double>(weights[c])) *
                       (exact_activations ? rounding : step + rounding);
          }
          ASSERT_NEAR(out[static_cast<std::size_t>(t * matrix.rows + row)], expected, allowed);
        }
      }
    }
  }
}

// Every type and every number of rows under the address sanitizer too, but not each with each.
constexpr int kEachRound = tests::kAddressSanitizer ? 3 : 1;

// The promise of kernel_table.h across levels; rows that fill no panel, every number of
// activation rows around the tile sizes, widths of one block to several segments.
TEST(Matmul, EveryLevelHasTheBitsOfScalarInt8) {
  std::mt19937 random(3);
  for (int round = 0; round < 136; round += kEachRound) {
    const FileType type = kQuantisedPanels[static_cast<std::size_t>(round) % kPanelTypes];
    const RandomMatrix matrix(type, pick(random, 1, 90), 32 * pick(random, 1, 48), random);
    RandomActivations x(round < 96 ? 1 + round / 8 : pick(random, 1, 70), matrix.cols, random);
    scalar().quantize(x.view(), 0, x.rows);
    const OutputMode mode = round % 2 == 0 ? OutputMode::Store : OutputMode::Add;
    const std::vector<float> expected = product(scalar(), matrix.view(), x.view(), mode, 0.7F);
    for (const KernelTable* table : tested_tables()) {
      SCOPED_TRACE(trace_of(*table));
      ASSERT_TRUE(same_bits(product(*table, matrix.view(), x.view(), mode, 0.7F), expected))
          << shape_of(matrix.view(), x.rows);
    }
  }
}

// A step of many rows cuts them into groups; 160 rows need several.
TEST(Matmul, ManyActivationRowsHaveTheBitsOfScalarInt8) {
  std::mt19937 random(4);
  for (const FileType type : kQuantisedPanels) {
    const int cols = tests::kAddressSanitizer ? 256 : 1536;
    const RandomMatrix matrix(type, 33, cols, random);
    RandomActivations x(160, cols, random);
    scalar().quantize(x.view(), 0, x.rows);
    const std::vector<float> expected = product(scalar(), matrix.view(), x.view());
    for (const KernelTable* table : tested_tables()) {
      SCOPED_TRACE(trace_of(*table));
      ASSERT_TRUE(same_bits(product(*table, matrix.view(), x.view()), expected));
    }
  }
}

// Feed-forward widths of models of 7B and 70B: not even one tile of such rows fits the workspace.
TEST(Matmul, RowsWiderThanATileOfTheWorkspaceHaveTheBitsOfScalarInt8) {
  std::mt19937 random(9);
  for (const FileType type : {FileType::Q8_0, FileType::Q4_1, FileType::Q6_K}) {
    const RandomMatrix matrix(type, 16, 28672, random);
    RandomActivations x(7, 28672, random);
    scalar().quantize(x.view(), 0, x.rows);
    const std::vector<float> expected = product(scalar(), matrix.view(), x.view());
    for (const KernelTable* table : tested_tables()) {
      SCOPED_TRACE(trace_of(*table));
      ASSERT_TRUE(same_bits(product(*table, matrix.view(), x.view()), expected));
    }
  }
}

// The largest block sums that exist: every nibble and byte at its limit, every activation too.
TEST(Matmul, LargestSumsDoNotOverflow) {
  std::mt19937 random(5);
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const FileType type : kQuantisedPanels) {
      for (const float sign : {1.0F, -1.0F}) {
        for (const int tokens : {1, 2, 3, 4, 7, 12, 17}) {
          const bool low = tokens % 2 == 0;
          RandomMatrix matrix(type, 16, 64, random);
          const std::size_t block = file_format(type).bytes;
          std::vector<bool> is_half(block);
          for (const std::size_t at : half_offsets(type)) is_half[at] = is_half[at + 1] = true;
          for (std::size_t i = 0; i < matrix.file.size(); ++i) {
            if (is_half[i % block]) continue;
            // Q6_K: factors of -128 times weights of -32 are larger than 127 times 31.
            const bool factors = type == FileType::Q6_K && i % block >= 192;
            matrix.file[i] = type == FileType::Q8_0 ? std::byte{0x7f}
                             : factors               ? std::byte{0x80}
                             : type == FileType::Q6_K && low ? std::byte{0}
                                                             : std::byte{0xff};
          }
          pack_panels(type, matrix.file.data(), 16, matrix.cols, 0, 1, matrix.panels.data());
          RandomActivations x(tokens, matrix.cols, random);
          x.f32.assign(x.f32.size(), sign * 3.0F);
          table->quantize(x.view(), 0, x.rows);
          ASSERT_TRUE(same_bits(product(*table, matrix.view(), x.view()),
                                product(scalar(), matrix.view(), x.view())));
          std::vector<float> weights(static_cast<std::size_t>(matrix.cols));
          dequantize_row(matrix.view(), 3, weights.data());
          double expected = 0.0;
          for (const float weight : weights) expected += static_cast<double>(weight * sign * 3.0F);
          EXPECT_NEAR(product(*table, matrix.view(), x.view())[3], expected,
                      1e-5 * std::abs(expected) + 1e-4);
        }
      }
    }
  }
}

// A row has the same bits alone and among any others, whatever ranges the panels are split into.
TEST(Matmul, RowBitsDependOnTheRowAlone) {
  std::mt19937 random(6);
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (int round = 0; round < 56; round += kEachRound) {
      const auto number = static_cast<std::size_t>(round) % std::size(kAllFileTypes);
      const FileType type = kAllFileTypes[number];
      const RandomMatrix matrix(type, pick(random, 1, 120), 32 * pick(random, 1, 20), random);
      const PanelMatrix w = matrix.view();
      RandomActivations x(pick(random, 2, 70), matrix.cols, random);
      table->quantize(x.view(), 0, x.rows);
      const std::vector<float> together = product(*table, w, x.view());

      std::vector<float> apart(together.size());
      for (int first = 0; first < x.rows;) {
        const int count = std::min(x.rows - first, pick(random, 1, 9));
        for (int panel = 0; panel < w.panel_count();) {
          const int end = std::min(w.panel_count(), panel + pick(random, 1, 4));
          table->matmul(w, x.view(first, count), panel, end,
                        apart.data() + static_cast<std::size_t>(first * w.rows),
                        static_cast<std::size_t>(w.rows), OutputMode::Store);
          panel = end;
        }
        first += count;
      }
      ASSERT_TRUE(same_bits(together, apart)) << shape_of(w, x.rows);
    }
  }
}

TEST(Matmul, WritesOnlyTheOutputsOfItsPanels) {
  std::mt19937 random(7);
  for (const KernelTable* table : tested_tables()) {
    SCOPED_TRACE(trace_of(*table));
    for (const FileType type : kAllFileTypes) {
      for (const int tokens : {1, 3, 8, 19}) {
        const RandomMatrix matrix(type, 60, 64, random);
        RandomActivations x(tokens, matrix.cols, random);
        table->quantize(x.view(), 0, x.rows);
        std::vector<float> out(static_cast<std::size_t>(tokens) * 70, 9.0F);
        table->matmul(matrix.view(), x.view(), 1, 2, out.data(), 70, OutputMode::Store);
        table->matmul(matrix.view(), x.view(), 3, 4, out.data(), 70, OutputMode::Store);
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t column = i % 70;
          const bool written = (column >= 16 && column < 32) || (column >= 48 && column < 60);
          ASSERT_EQ(out[i] == 9.0F, !written) << "row " << i / 70 << " column " << column;
        }
      }
    }
  }
}

TEST(Matmul, NoRowsAndNoPanelsAreFine) {
  std::mt19937 random(8);
  const RandomMatrix matrix(FileType::Q4_1, 32, 64, random);
  RandomActivations x(4, 64, random);
  for (const KernelTable* table : tested_tables()) {
    float out = 5.0F;
    table->quantize(x.view(), 0, 0);
    table->matmul(matrix.view(), x.view(0, 0), 0, 2, &out, 32, OutputMode::Store);
    table->matmul(matrix.view(), x.view(), 1, 1, &out, 32, OutputMode::Store);
    EXPECT_EQ(out, 5.0F);
  }
}

}  // namespace
}  // namespace turnstile::kernels
