// Where the tiles of products begin and end: each edge from both sides, at every level. Products of
// quantised weights have the bits of the Scalar level; those of floats are near the product in
// double.
//
//   edge                       AVX2                    AVX-VNNI   AVX-512 VNNI   AMX
//   rows of a tile             1, 2 direct; up to 6    3          6              16
//   rows of a group            128                     96         96             16 to 64
//   panels of a tile           2 where rows are 1, 2   1          2              1
//   blocks of a segment        12 (Q8_0) to 22         -          -              24
//   rows of a float tile       6                       AVX2's     8              AVX-512's
//
// The tiles of Numerics::Bf16 have theirs in bf16_test.cpp, those of attention in
// attention_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/kernels/products.h"
#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"

namespace turnstile::kernels {
namespace {

void expect_scalar_bits(const RandomMatrix& matrix, int rows, std::mt19937& random) {
  RandomActivations x(rows, matrix.cols, random);
  const KernelTable& scalar = kernel_table(Level::Scalar, Numerics::Int8);
  scalar.quantize(x.view(), 0, rows);
  const OutputMode mode = rows % 2 == 0 ? OutputMode::Store : OutputMode::Add;
  const std::vector<float> expected = product(scalar, matrix.view(), x.view(), mode, 0.7F);
  for (const KernelTable* table : tested_tables()) {
    const std::vector<float> out = product(*table, matrix.view(), x.view(), mode, 0.7F);
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
        << trace_of(*table) << ", " << name_of(matrix.type) << ", " << matrix.rows << " x "
        << matrix.cols << ", " << rows << " activation rows";
  }
}

TEST(TileEdges, EveryNumberOfRows) {
  std::mt19937 random(1);
  for (const FileType type : kQuantisedPanels) {
    const RandomMatrix matrix(type, 17, 64, random);
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 15, 16, 17, 31, 32, 33}) {
      expect_scalar_bits(matrix, rows, random);
    }
  }
  for (const FileType type : {FileType::Q8_0, FileType::Q4_1}) {
    const RandomMatrix matrix(type, 17, 64, random);
    for (const int rows : {47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129}) {
      expect_scalar_bits(matrix, rows, random);
    }
  }
}

TEST(TileEdges, EveryNumberOfOutputs) {
  std::mt19937 random(2);
  for (const FileType type : kQuantisedPanels) {
    for (const int outputs : {1, 15, 16, 17, 31, 32, 33, 47, 48, 49}) {
      const RandomMatrix matrix(type, outputs, 32, random);
      for (const int rows : {1, 2, 3, 16}) expect_scalar_bits(matrix, rows, random);
    }
  }
}

// A K type has 8 blocks at least, so its segments end at 24 and not between.
TEST(TileEdges, EveryNumberOfBlocks) {
  std::mt19937 random(3);
  for (const FileType type : kQuantisedPanels) {
    for (const int blocks : {1, 2, 11, 12, 13, 21, 22, 23, 24, 25, 44, 45, 48, 49}) {
      const bool is_k = file_format(type).columns == kSuperBlock;
      if (is_k && blocks % 8 != 0) continue;
      const RandomMatrix matrix(type, 3, 32 * blocks, random);
      for (const int rows : {1, 7, 16}) expect_scalar_bits(matrix, rows, random);
    }
  }
}

// The widest matrix has room for one row at AVX-VNNI and AVX-512, and for one as words at AVX2. An
// AMX tile of 16 rows holds 6,528 columns, two of them 3,264; what is wider goes to AVX-512.
TEST(TileEdges, WidthsThatJustFitTheWorkspaces) {
  std::mt19937 random(4);
  for (const FileType type : {FileType::Q8_0, FileType::Q4_1}) {
    for (const int cols : {3264, 3296, 6528, 6560}) {
      expect_scalar_bits(RandomMatrix(type, 2, cols, random), 33, random);
    }
  }
  for (const FileType type : {FileType::Q8_0, FileType::Q6_K}) {
    expect_scalar_bits(RandomMatrix(type, 1, kMaxColumns, random), 4, random);
  }
}

// Widths that 32 does not divide, too: a float matrix may have any.
TEST(TileEdges, FloatsOfEveryShape) {
  std::mt19937 random(5);
  for (const FileType type : {FileType::F32, FileType::F16, FileType::BF16}) {
    for (const int outputs : {1, 15, 16, 17, 33}) {
      for (const int cols : {1, 31, 33}) {
        const RandomMatrix matrix(type, outputs, cols, random);
        for (const int rows : {1, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17}) {
          RandomActivations x(rows, cols, random);
          for (const KernelTable* table : tested_tables()) {
            SCOPED_TRACE(trace_of(*table) + ", " + name_of(type) + ", " + std::to_string(outputs) +
                         " x " + std::to_string(cols) + ", " + std::to_string(rows) + " rows");
            expect_close_to_double(matrix.view(), x.view(),
                                   product(*table, matrix.view(), x.view()), 4e-6);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels
