// The loader's checks, tensor by tensor, and that packing loses nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/weights.h"
#include "engine/model/llama.h"
#include "kernels/panel.h"
#include "tests/support/gguf_blocks.h"
#include "tests/support/golden_files.h"
#include "tests/support/random_llama.h"

namespace turnstile {
namespace {

using engine::GgufType;
using engine::TensorNeed;
using engine::Weights;
using tests::GgufImage;

std::vector<float> ramp(std::size_t count, float start) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = start + 0.125F * static_cast<float>((i * 37) % 101) - 6.0F;
  }
  return values;
}

kernels::FileType kernel_type(GgufType type) {
  switch (type) {
    case GgufType::F32: return kernels::FileType::F32;
    case GgufType::F16: return kernels::FileType::F16;
    case GgufType::BF16: return kernels::FileType::BF16;
    case GgufType::Q8_0: return kernels::FileType::Q8_0;
    case GgufType::Q4_0: return kernels::FileType::Q4_0;
    case GgufType::Q4_1: return kernels::FileType::Q4_1;
    case GgufType::Q5_0: return kernels::FileType::Q5_0;
    case GgufType::Q5_1: return kernels::FileType::Q5_1;
    case GgufType::IQ4_NL: return kernels::FileType::IQ4_NL;
    case GgufType::Q2_K: return kernels::FileType::Q2_K;
    case GgufType::Q3_K: return kernels::FileType::Q3_K;
    case GgufType::Q4_K: return kernels::FileType::Q4_K;
    case GgufType::Q5_K: return kernels::FileType::Q5_K;
    default: return kernels::FileType::Q6_K;
  }
}

TEST(Weights, MoreThanTheMemoryThatIsLeftIsRefusedBeforeAnyIsTaken) {
  GgufImage image;
  image.tensors.push_back(
      {"v", GgufType::F32, {1024}, tests::encode_rows(GgufType::F32, ramp(1024, 1.0F))});
  const std::vector<std::byte> bytes = image.serialize();
  const auto file = engine::GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  const TensorNeed needs[] = {{.name = "v", .cols = 1024, .vector = true}};
  kernels::WorkerPool pool(1);
  EXPECT_TRUE(Weights::load(*file, needs, pool, {}, 4096));
  const auto refused = Weights::load(*file, needs, pool, {}, 4095);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "weights");
  EXPECT_NE(refused.error().what.find("are left: serve a smaller model"), std::string::npos);
}

// Rows read back from the panels are bit for bit what the file rows mean, for every type (Q2_K
// within the bound of kernels/file_blocks.h) and a row count that does not fill the last panel,
// packed by one thread or three. What the tests' writer wrote is near the values it was given, so
// writer and reader agree on the format.
TEST(Weights, PanelsHoldTheFilesValuesForEveryType) {
  constexpr int kRows = 1'051;  // more than one work item, and a last panel that is not full
  constexpr int kCols = 256;
  const std::vector<float> written = ramp(kRows * kCols, 0.5F);
  for (const int threads : {1, 3}) {
    kernels::WorkerPool pool(threads);
    for (const GgufType type : tests::kWeightFormats) {
      SCOPED_TRACE(engine::find_gguf_type(static_cast<std::uint32_t>(type))->name);
      GgufImage image;
      image.tensors.push_back({"m", type, {kCols, kRows}, tests::encode_rows(type, written)});
      image.tensors.push_back(
          {"v", GgufType::BF16, {40}, tests::encode_rows(GgufType::BF16, ramp(40, 1.0F))});
      const std::vector<std::byte> bytes = image.serialize();
      const auto file = engine::GgufFile::parse(bytes);
      ASSERT_TRUE(file);
      const TensorNeed needs[] = {{.name = "m", .rows = kRows, .cols = kCols},
                                  {.name = "v", .cols = 40, .vector = true},
                                  {.name = "w", .cols = 40, .vector = true, .optional = true}};
      const auto weights = Weights::load(*file, needs, pool, {});
      ASSERT_TRUE(weights) << weights.error().what;
      EXPECT_EQ(Weights::needed_bytes(*file, needs), weights->arena_bytes());

      const kernels::PanelMatrix matrix = weights->matrix(0);
      EXPECT_EQ(matrix.type, kernels::panel_type(kernel_type(type)));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.data) % 64, 0U);
      const std::byte* file_rows = file->find_tensor("m")->data.data();
      const std::size_t row_bytes = kernels::file_row_bytes(kernel_type(type), kCols);
      std::vector<float> packed(kCols), expected(kCols);
      for (int row = 0; row < kRows; ++row) {
        kernels::dequantize_row(matrix, row, packed.data());
        kernels::dequantize_file_row(
            kernel_type(type), file_rows + static_cast<std::size_t>(row) * row_bytes, kCols,
            expected.data());
        if (type != GgufType::Q2_K) {
          ASSERT_EQ(packed, expected) << "row " << row;
        }
        for (int c = 0; c < kCols; ++c) {
          const auto at = static_cast<std::size_t>(c);
          ASSERT_NEAR(packed[at], written[static_cast<std::size_t>(row * kCols) + at],
                      type == GgufType::Q2_K ? 2.6F : 1.3F)
              << "row " << row << " column " << c;
        }
      }
      const auto values = weights->vector(1);
      EXPECT_EQ(std::vector<float>(values.begin(), values.end()), ramp(40, 1.0F));
      EXPECT_FALSE(weights->present(2));
      EXPECT_TRUE(weights->vector(2).empty());
    }
  }
}

// Where a block of each format keeps its floating-point numbers, by the format's specification; the
// upper two bytes of an F32.
TEST(Weights, AnInfinityOrNanIsNamedInWhateverBlockItIs) {
  struct Numbers {
    GgufType type;
    std::vector<std::size_t> places;
    std::uint16_t infinity = 0x7C00;
  };
  const Numbers table[] = {
      {GgufType::F32, {2}, 0x7F80}, {GgufType::BF16, {0}, 0x7F80}, {GgufType::F16, {0}},
      {GgufType::Q8_0, {0}},        {GgufType::Q4_0, {0}},         {GgufType::Q4_1, {0, 2}},
      {GgufType::Q5_0, {0}},        {GgufType::Q5_1, {0, 2}},      {GgufType::IQ4_NL, {0}},
      {GgufType::Q2_K, {80, 82}},   {GgufType::Q3_K, {108}},       {GgufType::Q4_K, {0, 2}},
      {GgufType::Q5_K, {0, 2}},     {GgufType::Q6_K, {208}},
  };
  ASSERT_EQ(std::size(table), std::size(tests::kWeightFormats));
  constexpr int kRows = 1'051;
  constexpr int kCols = 256;
  const std::vector<float> values = ramp(kRows * kCols, 0.5F);
  kernels::WorkerPool pool(2);
  const TensorNeed needs[] = {{.name = "m", .rows = kRows, .cols = kCols}};
  for (const Numbers& numbers : table) {
    const auto info = engine::find_gguf_type(static_cast<std::uint32_t>(numbers.type));
    GgufImage image;
    image.tensors.push_back(
        {"m", numbers.type, {kCols, kRows}, tests::encode_rows(numbers.type, values)});
    std::vector<std::byte> bytes = image.serialize();
    const std::size_t data_bytes = image.tensors[0].bytes.size();
    const std::size_t data_at = bytes.size() - (data_bytes + 31) / 32 * 32;
    for (const std::size_t block : {std::size_t{0}, data_bytes / info->block_bytes - 1}) {
      for (const std::size_t place : numbers.places) {
        SCOPED_TRACE(std::string(info->name) + " block " + std::to_string(block));
        std::byte* at = bytes.data() + data_at + block * info->block_bytes + place;
        std::uint16_t before = 0;
        std::memcpy(&before, at, sizeof before);
        for (const int added : {0, 1, 0x8000}) {  // infinity, NaN, minus infinity
          const auto broken = static_cast<std::uint16_t>(numbers.infinity + added);
          std::memcpy(at, &broken, sizeof broken);
          const auto file = engine::GgufFile::parse(bytes);
          ASSERT_TRUE(file);
          const auto weights = Weights::load(*file, needs, pool, {});
          ASSERT_FALSE(weights);
          EXPECT_EQ(weights.error().where, "tensor m");
          EXPECT_NE(weights.error().what.find("not a number"), std::string::npos);
        }
        std::memcpy(at, &before, sizeof before);
      }
    }
    const auto file = engine::GgufFile::parse(bytes);
    EXPECT_TRUE(Weights::load(*file, needs, pool, {})) << "as it was";
  }
}

TEST(Weights, ProgressRisesToTheTotal) {
  const std::vector<std::byte> bytes = tests::random_llama({}, 3).serialize();
  const auto file = engine::GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  std::uint64_t tensor_bytes = 0;
  for (const engine::GgufTensor& tensor : file->tensors()) tensor_bytes += tensor.data.size();
  std::uint64_t last = 0;
  std::size_t calls = 0;
  engine::LlamaOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, tensor_bytes);
    last = done;
    ++calls;
  };
  ASSERT_TRUE(engine::LlamaModel::load(*file, options));
  EXPECT_EQ(last, tensor_bytes);
  EXPECT_EQ(calls, file->tensors().size());
}

struct WrongTensor {
  const char* name;
  std::function<void(GgufImage&)> change;
  const char* where;
  const char* what;
};

std::function<void(GgufImage&)> replace(const char* tensor, GgufType type,
                                        std::vector<std::uint64_t> shape, std::size_t bytes) {
  return [=](GgufImage& image) {
    tests::GgufImageTensor& target = image.tensor(tensor);
    target.type = type;
    target.shape = shape;
    target.bytes.assign(bytes, std::byte{0});
  };
}

TEST(Weights, WrongTensorsAreNamed) {
  const WrongTensor cases[] = {
      {"missing matrix", [](GgufImage& image) { image.erase_tensor("blk.1.ffn_up.weight"); },
       "tensor blk.1.ffn_up.weight", "is missing"},
      {"missing norm", [](GgufImage& image) { image.erase_tensor("output_norm.weight"); },
       "tensor output_norm.weight", "is missing"},
      {"a bias that nobody adds",
       [](GgufImage& image) {
         image.tensors.push_back({"blk.0.attn_q.bias", GgufType::F32, {64},
                                  tests::encode_rows(GgufType::F32, ramp(64, 0.0F))});
       },
       "tensor blk.0.attn_q.bias", "not part of the llama model"},
      {"a layer too many",
       [](GgufImage& image) { image.set("llama.block_count", 1U); },
       "tensor blk.1.attn_norm.weight", "not part of the llama model"},
      {"a layer too few", [](GgufImage& image) { image.set("llama.block_count", 3U); },
       "tensor blk.2.attn_norm.weight", "is missing"},
      {"a type that no kernel knows",
       replace("blk.0.ffn_down.weight", GgufType::IQ4_XS, {256, 24}, 24 * 136),
       "tensor blk.0.ffn_down.weight", "has type IQ4_XS; supported here are F32, F16, BF16, Q8_0"},
      {"integers", replace("blk.0.attn_q.weight", GgufType::I32, {64, 64}, 64 * 64 * 4),
       "tensor blk.0.attn_q.weight", "has type I32"},
      {"quantised norm", replace("blk.0.attn_norm.weight", GgufType::Q8_0, {64}, 68),
       "tensor blk.0.attn_norm.weight", "has type Q8_0; supported here are F32, F16 and BF16"},
      {"transposed", replace("blk.0.ffn_gate.weight", GgufType::F32, {96, 64}, 96 * 64 * 4),
       "tensor blk.0.ffn_gate.weight", "has shape [96, 64]; the model's keys ask for [64, 96]"},
      {"too few rows", replace("blk.0.attn_k.weight", GgufType::F32, {64, 16}, 64 * 16 * 4),
       "tensor blk.0.attn_k.weight", "has shape [64, 16]"},
      {"three dimensions",
       replace("blk.0.attn_output.weight", GgufType::F32, {64, 32, 2}, 64 * 64 * 4),
       "tensor blk.0.attn_output.weight", "has shape [64, 32, 2]"},
      {"a norm as a matrix", replace("blk.0.ffn_norm.weight", GgufType::F32, {64, 1}, 64 * 4),
       "tensor blk.0.ffn_norm.weight", "has shape [64, 1]"},
      {"head of another vocabulary",
       [](GgufImage& image) {
         image.tensors.push_back({"output.weight", GgufType::F32, {64, 161},
                                  tests::encode_rows(GgufType::F32, ramp(64 * 161, 0.0F))});
       },
       "tensor output.weight", "has shape [64, 161]"},
      {"rope factors of another size",
       [](GgufImage& image) {
         image.tensors.push_back({"rope_freqs.weight", GgufType::F32, {9},
                                  tests::encode_rows(GgufType::F32, ramp(9, 10.0F))});
       },
       "tensor rope_freqs.weight", "has shape [9]"},
      {"a norm that is not a number",
       [](GgufImage& image) {
         image.tensor("blk.1.ffn_norm.weight").bytes = tests::encode_rows(
             GgufType::F32, std::vector<float>(64, std::numeric_limits<float>::quiet_NaN()));
       },
       "tensor blk.1.ffn_norm.weight", "not a number"},
      {"a rope factor of zero",
       [](GgufImage& image) {
         image.tensors.push_back({"rope_freqs.weight", GgufType::F32, {8},
                                  tests::encode_rows(GgufType::F32, std::vector<float>(8, 0.0F))});
       },
       "tensor rope_freqs.weight", "not a positive number"},
  };
  for (const WrongTensor& wrong : cases) {
    GgufImage image = tests::random_llama({}, 2);
    wrong.change(image);
    const std::vector<std::byte> bytes = image.serialize();
    const auto file = engine::GgufFile::parse(bytes);
    ASSERT_TRUE(file) << wrong.name << ": " << file.error().where << " " << file.error().what;
    const auto model = engine::LlamaModel::load(*file, {});
    ASSERT_FALSE(model) << wrong.name;
    EXPECT_EQ(model.error().where, wrong.where) << wrong.name;
    EXPECT_NE(model.error().what.find(wrong.what), std::string::npos)
        << wrong.name << ": " << model.error().what;
  }
}

// The arena of the real model is about as large as the file, and the head shares the embedding.
TEST(Weights, TiedHeadTakesNoSecondCopy) {
  tests::LlamaShape shape;
  const auto bytes_of = [](const tests::LlamaShape& of) {
    const std::vector<std::byte> bytes = tests::random_llama(of, 5).serialize();
    const auto file = engine::GgufFile::parse(bytes);
    EXPECT_TRUE(file);
    const auto model = engine::LlamaModel::load(*file, {});
    EXPECT_TRUE(model);
    return (*model)->weight_bytes();
  };
  const std::size_t tied = bytes_of(shape);
  shape.tied = false;
  EXPECT_GE(bytes_of(shape), tied + kernels::panel_bytes(kernels::WeightType::Q4_1, shape.vocab,
                                                          shape.hidden));
}

}  // namespace
}  // namespace turnstile
