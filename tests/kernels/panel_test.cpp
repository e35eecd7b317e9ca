#include "kernels/panel.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/half_float.h"
#include "tests/kernels/random_tensors.h"

namespace turnstile::kernels {
namespace {

constexpr WeightType kAllTypes[] = {WeightType::F32, WeightType::F16, WeightType::Q8_0,
                                    WeightType::Q4_0, WeightType::Q4_1};

WeightType type_named(std::string_view name) {
  if (name == "F16") return WeightType::F16;
  if (name == "Q8_0") return WeightType::Q8_0;
  return name == "Q4_0" ? WeightType::Q4_0 : WeightType::Q4_1;
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
    const WeightType type = type_named(std::string_view(entry["type"]));
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

    std::vector<std::byte> panels(panel_bytes(type, 1, cols));
    pack_panels(type, file.data(), 1, cols, 0, 1, panels.data());
    std::vector<float> from_panel(expected.size());
    dequantize_row({type, 1, cols, panels.data()}, 0, from_panel.data());
    EXPECT_EQ(from_panel, expected);
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

TEST(Panel, HasTheBytesOfItsHeader) {
  // One row whose byte or nibble c says its column; the other 15 rows of the panel are absent.
  std::vector<std::byte> file(34);
  const std::uint16_t two = float_to_half(2.0F);
  std::memcpy(file.data(), &two, sizeof two);
  for (int c = 0; c < 32; ++c) file[static_cast<std::size_t>(2 + c)] = static_cast<std::byte>(c);
  std::vector<std::byte> panel(panel_bytes(WeightType::Q8_0, 1, 32));
  ASSERT_EQ(panel.size(), 544U);
  pack_panels(WeightType::Q8_0, file.data(), 1, 32, 0, 1, panel.data());
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
  pack_panels(WeightType::Q4_1, file.data(), 1, 32, 0, 1, panel.data());
  EXPECT_EQ(panel[33], std::byte{0x40});                // minimum of row 0
  EXPECT_EQ(panel[64 + 3 * 64 + 1], std::byte{0x2d});   // columns 13 (low) and 29 (high)
}

TEST(Panel, GivesBackEveryRowThatWasPacked) {
  std::mt19937 random(11);
  for (const WeightType type : kAllTypes) {
    for (const int rows : {1, 15, 16, 17, 50}) {
      for (const int cols : {32, 96, 576}) {
        const RandomMatrix matrix(type, rows, cols, random);
        std::vector<float> expected(static_cast<std::size_t>(cols));
        std::vector<float> actual(static_cast<std::size_t>(cols));
        for (int row = 0; row < rows; ++row) {
          dequantize_file_row(type,
                              matrix.file.data() + static_cast<std::size_t>(row) *
                                                       file_row_bytes(type, cols),
                              cols, expected.data());
          dequantize_row(matrix.view(), row, actual.data());
          ASSERT_EQ(actual, expected) << "type " << static_cast<int>(type) << " row " << row;
        }
      }
    }
  }
}

TEST(Panel, PackingInRangesEqualsPackingAtOnce) {
  std::mt19937 random(12);
  for (const WeightType type : kAllTypes) {
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
  for (const WeightType type : kAllTypes) {
    const RandomMatrix matrix(type, 17, 32, random);
    std::vector<std::byte> only_row(file_row_bytes(type, 32) * 16);
    std::memcpy(only_row.data(), matrix.file.data() + 16 * file_row_bytes(type, 32),
                file_row_bytes(type, 32));
    // The last panel holds one row; its other bytes equal those of an empty matrix.
    std::size_t nonzero = 0;
    const std::size_t one = matrix.panels.size() / 2;
    for (std::size_t i = one; i < 2 * one; ++i) nonzero += matrix.panels[i] != std::byte{0};
    EXPECT_LE(nonzero, file_row_bytes(type, 32));
  }
}

TEST(Panel, KeepsTheSizeOfTheFile) {
  for (const WeightType type : kAllTypes) {
    EXPECT_EQ(panel_bytes(type, 64, 576), 64 * file_row_bytes(type, 576));
    EXPECT_EQ(panel_bytes(type, 65, 576), 80 * file_row_bytes(type, 576));
    EXPECT_EQ(panel_bytes(type, 1, 32) % 32, 0U);
  }
}

}  // namespace
}  // namespace turnstile::kernels
