#include "kernels/panel.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/half_float.h"
#include "tests/kernels/random_tensors.h"

namespace turnstile::kernels {
namespace {

FileType type_named(std::string_view name) {
  for (const FileType type : kAllFileTypes) {
    if (name_of(type) == name) return type;
  }
  ADD_FAILURE() << "a type that the kernels do not know: " << name;
  return FileType::F32;
}

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// The recorded values come from gguf-py and ggml, which agree bit for bit.
TEST(Panel, DequantisesRecordedBlocksBitForBit) {
  simdjson::dom::parser parser;
  simdjson::dom::array entries;
  ASSERT_FALSE(parser.load(TURNSTILE_GOLDEN_DIR "/quant_blocks.json").get(entries));
  int seen = 0;
  for (const simdjson::dom::element entry : entries) {
    const FileType type = type_named(std::string_view(entry["type"]));
    SCOPED_TRACE(std::string_view(entry["type"]));
    const std::vector<std::byte> file = bytes_of_hex(std::string_view(entry["bytes_hex"]));
    std::vector<float> expected;
    for (const double value : simdjson::dom::array(entry["float32"])) {
      expected.push_back(static_cast<float>(value));
    }
    const int cols = static_cast<int>(expected.size());
    ASSERT_EQ(file.size(), file_row_bytes(type, cols));

    std::vector<float> from_file(expected.size());
    dequantize_file_row(type, file.data(), cols, from_file.data());
    EXPECT_EQ(from_file, expected);

    ++seen;
    if (type == FileType::Q2_K) continue;  // its panel is another format; see below
    std::vector<std::byte> panels(panel_bytes(panel_type(type), 1, cols));
    pack_panels(type, file.data(), 1, cols, 0, 1, panels.data());
    std::vector<float> from_panel(expected.size());
    dequantize_row({panel_type(type), 1, cols, panels.data()}, 0, from_panel.data());
    EXPECT_EQ(from_panel, expected);
  }
  EXPECT_EQ(seen, 13);
}

TEST(Panel, HasTheBytesOfItsHeader) {
  // One row whose byte or nibble c says its column; the other 15 rows of the panel are absent.
  std::vector<std::byte> file(34);
  const std::uint16_t two = float_to_half(2.0F);
  std::memcpy(file.data(), &two, sizeof two);
  for (int c = 0; c < 32; ++c) file[static_cast<std::size_t>(2 + c)] = static_cast<std::byte>(c);
  std::vector<std::byte> panel(panel_bytes(WeightType::Q8_0, 1, 32));
  ASSERT_EQ(panel.size(), 544U);
  pack_panels(FileType::Q8_0, file.data(), 1, 32, 0, 1, panel.data());
  EXPECT_EQ(panel[1], std::byte{0x40});  // scale of row 0, high byte of 2.0
  EXPECT_EQ(panel[3], std::byte{0});     // scale of the absent row 1
  EXPECT_EQ(panel[32 + 2], std::byte{0x82});                // vector 0: column 2
  EXPECT_EQ(panel[32 + 5 * 64 + 3], std::byte{0x80 + 23});  // vector 5: column 23
  EXPECT_EQ(panel[32 + 4], std::byte{0});                   // row 1 of vector 0

  file.resize(20);
  std::memcpy(file.data() + 2, &two, sizeof two);
  for (int c = 0; c < 16; ++c) {
    file[static_cast<std::size_t>(4 + c)] = static_cast<std::byte>(c | (15 - c) << 4);
  }
  panel.assign(panel_bytes(WeightType::Q4_1, 1, 32), std::byte{0});
  ASSERT_EQ(panel.size(), 320U);
  pack_panels(FileType::Q4_1, file.data(), 1, 32, 0, 1, panel.data());
  EXPECT_EQ(panel[33], std::byte{0x40});                // minimum of row 0
  EXPECT_EQ(panel[64 + 3 * 64 + 1], std::byte{0x2d});   // columns 13 (low) and 29 (high)
}

// The head of 8 blocks, then the blocks: s, t and nibbles of Q4_K; two factors and bytes of Q6_K.
TEST(Panel, HasTheHeadsOfTheKTypes) {
  std::mt19937 random(10);
  const RandomMatrix q4(FileType::Q4_K, 3, 512, random);
  ASSERT_EQ(q4.panels.size(), 2U * (64 + 8 * (32 + 256)));
  const RandomMatrix q6(FileType::Q6_K, 3, 512, random);
  ASSERT_EQ(q6.panels.size(), 2U * (64 + 8 * (32 + 512)));
  for (const RandomMatrix* matrix : {&q4, &q6}) {
    const PanelFormat format = panel_format(panel_type(matrix->type));
    for (const int block : {0, 7, 8, 15}) {
      for (const int row : {0, 2}) {
        const QuantBlock expected = read_quant_block(
            matrix->type,
            matrix->file.data() + static_cast<std::size_t>(row) *
                                      file_row_bytes(matrix->type, 512),
            block);
        const std::byte* at = matrix->panels.data() + format.block_offset(block);
        const std::byte* super =
            matrix->panels.data() + (block / 8) * (64 + 8 * format.block_bytes());
        std::uint16_t halves[2];
        std::memcpy(&halves[0], super + 2 * row, 2);
        std::memcpy(&halves[1], super + 32 + 2 * row, 2);
        EXPECT_EQ(halves[0], expected.scale);
        EXPECT_EQ(halves[1], expected.minimum);
        EXPECT_EQ(at[row], std::byte{expected.part[0]});
        EXPECT_EQ(at[16 + row], std::byte{expected.part[1]});
        const auto quad3 = std::to_integer<int>(at[32 + 3 * 64 + 4 * row + 1]);  // column 13
        EXPECT_EQ(matrix == &q4 ? quad3 & 15 : quad3, expected.weight[13]);
      }
    }
  }
}

TEST(Panel, GivesBackEveryRowThatWasPacked) {
  std::mt19937 random(11);
  for (const FileType type : kAllFileTypes) {
    if (type == FileType::Q2_K) continue;
    for (const int rows : {1, 15, 16, 17, 50}) {
      for (const int cols : {32, 96, 576}) {
        const RandomMatrix matrix(type, rows, cols, random);
        std::vector<float> expected(static_cast<std::size_t>(matrix.cols));
        std::vector<float> actual(expected.size());
        for (int row = 0; row < rows; ++row) {
          dequantize_file_row(type,
                              matrix.file.data() + static_cast<std::size_t>(row) *
                                                       file_row_bytes(type, matrix.cols),
                              matrix.cols, expected.data());
          dequantize_row(matrix.view(), row, actual.data());
          ASSERT_EQ(actual, expected) << name_of(type) << " row " << row;
        }
      }
    }
  }
}

// The one format whose panel is inexact, and by how much (file_blocks.h).
TEST(Panel, Q2KMovesByAtMostHalfAStepOfAHundredAndTwentySeventh) {
  std::mt19937 random(14);
  const RandomMatrix matrix(FileType::Q2_K, 5, 768, random);
  std::vector<float> expected(768);
  std::vector<float> actual(768);
  float furthest = 0.0F;
  for (int row = 0; row < matrix.rows; ++row) {
    dequantize_file_row(FileType::Q2_K,
                        matrix.file.data() + static_cast<std::size_t>(row) *
                                                 file_row_bytes(FileType::Q2_K, 768),
                        768, expected.data());
    dequantize_row(matrix.view(), row, actual.data());
    for (std::size_t block = 0; block < 768; block += 32) {
      float largest = 0.0F;
      for (std::size_t c = block; c < block + 32; ++c) {
        largest = std::max(largest, std::abs(expected[c]));
      }
      for (std::size_t c = block; c < block + 32; ++c) {
        const float moved = std::abs(actual[c] - expected[c]);
        ASSERT_LE(moved, largest * (1.0F / 254.0F + 0x1p-11F) + 0x1p-20F);
        furthest = std::max(furthest, moved / largest);
      }
    }
  }
  EXPECT_GT(furthest, 0.001F);  // and it does move: nobody should take it for exact
}

TEST(Panel, PackingInRangesEqualsPackingAtOnce) {
  std::mt19937 random(12);
  for (const FileType type : kAllFileTypes) {
    const RandomMatrix matrix(type, 85, 64, random);
    std::vector<std::byte> panels(matrix.panels.size(), std::byte{0xee});
    for (int panel = matrix.view().panel_count(); panel-- > 0;) {
      pack_panels(type, matrix.file.data(), matrix.rows, matrix.cols, panel, panel + 1,
                  panels.data());
    }
    EXPECT_EQ(panels, matrix.panels);
  }
}

TEST(Panel, RowsPastTheEndAreZeroBytes) {
  std::mt19937 random(13);
  for (const FileType type : kAllFileTypes) {
    const RandomMatrix matrix(type, 17, 32, random);
    // The last panel holds one row: at most its bytes are not zero.
    const std::size_t one = matrix.panels.size() / 2;
    std::size_t nonzero = 0;
    for (std::size_t i = one; i < 2 * one; ++i) nonzero += matrix.panels[i] != std::byte{0};
    EXPECT_LE(nonzero, one / 16) << name_of(type);
  }
}

TEST(Panel, KeepsTheSizeOfTheFileWhereItKeepsTheFormat) {
  for (const FileType type : {FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0,
                              FileType::Q4_0, FileType::Q4_1}) {
    EXPECT_EQ(panel_bytes(panel_type(type), 64, 576), 64 * file_row_bytes(type, 576));
    EXPECT_EQ(panel_bytes(panel_type(type), 65, 576), 80 * file_row_bytes(type, 576));
    EXPECT_EQ(panel_bytes(panel_type(type), 1, 32) % 32, 0U);
  }
  // Q4_K: 8 bits more for each 256 columns of a row, where 6-bit scales became bytes.
  EXPECT_EQ(panel_bytes(WeightType::Q4_K, 16, 256), 16 * (file_row_bytes(FileType::Q4_K, 256) + 4));
}

}  // namespace
}  // namespace turnstile::kernels
