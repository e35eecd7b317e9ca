// `numerics = "fast"`: which rows are computed in bf16, and what still holds. The bf16 products are
// the Scalar level's, whose bits AMX tiles have (tests/kernels/bf16_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/kernel_choice.h"
#include "engine/model/llama.h"
#include "tests/support/random_llama.h"
#include "tests/support/repeats.h"
#include "tests/support/teacher_forcing.h"

namespace turnstile {
namespace {

using engine::TokenId;

constexpr std::size_t kLong = engine::kLongSliceRows;
constexpr std::size_t kRoom = 512;  // positions of a sequence

std::unique_ptr<engine::LlamaModel> load(const engine::GgufFile& file, bool fast) {
  engine::LlamaOptions options;
  options.level = kernels::best_level();
  options.threads = 2;
  if (fast) {
    options.long_slice_table =
        &kernels::kernel_table(kernels::Level::Scalar, kernels::Numerics::Bf16);
  }
  auto model = engine::LlamaModel::load(file, options);
  EXPECT_TRUE(model) << model.error().where << ": " << model.error().what;
  EXPECT_TRUE((*model)->reserve(8 * kRoom / kernels::kKvBlockTokens, 400, 8));
  return std::move(*model);
}

// A sequence with blocks of its own.
struct Text {
  Text(std::uint32_t number, std::size_t length) : ids(length), blocks(kRoom / 16) {
    for (std::size_t i = 0; i < length; ++i) {
      ids[i] = static_cast<TokenId>((i * (61 + 2 * number) + number) % 151);
    }
    std::iota(blocks.begin(), blocks.end(),
              static_cast<kernels::BlockId>(number * blocks.size()));
  }
  engine::StepSlice slice(std::size_t begin, std::size_t end) const {
    return {std::span(ids).subspan(begin, end - begin), static_cast<std::uint32_t>(begin), blocks,
            1};
  }

  std::vector<TokenId> ids;
  std::vector<kernels::BlockId> blocks;
};

std::vector<float> step(engine::Model& model, const std::vector<engine::StepSlice>& slices) {
  std::vector<float> logits(slices.size() * model.vocab_size());
  model.forward(slices, logits);
  return logits;
}

// The last logits of the text, computed in chunks of these sizes.
std::vector<float> last_logits(engine::Model& model, const Text& text,
                               const std::vector<std::size_t>& chunks) {
  std::vector<float> logits;
  std::size_t begin = 0;
  for (const std::size_t chunk : chunks) {
    logits = step(model, {text.slice(begin, begin + chunk)});
    begin += chunk;
  }
  EXPECT_EQ(begin, text.ids.size());
  return logits;
}

// RMS of the difference as a share of the standard deviation of `expected`.
double distance(const std::vector<float>& logits, const std::vector<float>& expected) {
  const double mean = std::accumulate(expected.begin(), expected.end(), 0.0) /
                      static_cast<double>(expected.size());
  double spread = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    spread += std::pow(static_cast<double>(expected[i]) - mean, 2);
    difference += std::pow(static_cast<double>(logits[i]) - static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / spread);
}

class FastNumerics : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    bytes_ = tests::random_llama(tests::special_shapes().at(GetParam()), 7).serialize();
    auto file = engine::GgufFile::parse(bytes_);
    ASSERT_TRUE(file);
    exact_ = load(*file, false);
    fast_ = load(*file, true);
  }

  std::vector<std::byte> bytes_;
  std::unique_ptr<engine::LlamaModel> exact_;
  std::unique_ptr<engine::LlamaModel> fast_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, FastNumerics,
                         ::testing::Range(std::size_t{0}, tests::special_shapes().size()));

TEST_P(FastNumerics, ShortChunksAndDecodesAreTheBitsOfExact) {
  const Text text(0, 2 * kLong);
  std::vector<std::size_t> chunks{kLong - 1, 17, 16};
  while (std::accumulate(chunks.begin(), chunks.end(), std::size_t{0}) < text.ids.size()) {
    chunks.push_back(1);
  }
  EXPECT_EQ(last_logits(*fast_, text, chunks), last_logits(*exact_, text, chunks));
}

TEST_P(FastNumerics, AChunkOfTheLeastLengthIsComputedInBf16) {
  const Text text(0, kLong + 1);
  EXPECT_NE(last_logits(*fast_, text, {kLong, 1}), last_logits(*exact_, text, {kLong, 1}));
}

TEST_P(FastNumerics, ASliceIsTheSameBitsWhateverElseIsInTheStep) {
  const Text alone[] = {{0, 70}, {1, 20}, {2, kLong}, {3, 150}};
  const Text crowd[] = {{4, 70}, {5, 20}, {6, kLong}, {7, 150}};
  std::vector<float> expected;
  std::vector<engine::StepSlice> slices;
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t begin = 0;
    // The first one decodes after a long chunk, the last one is in its second chunk.
    if (i == 0) begin = 69;
    if (i == 3) begin = 80;
    Text twin = crowd[i];  // the same text in other blocks
    twin.blocks = alone[i].blocks;
    if (begin > 0) step(*fast_, {twin.slice(0, begin)});
    const std::vector<float> logits = step(*fast_, {twin.slice(begin, twin.ids.size())});
    expected.insert(expected.end(), logits.begin(), logits.end());
    if (begin > 0) step(*fast_, {crowd[i].slice(0, begin)});
    slices.push_back(crowd[i].slice(begin, crowd[i].ids.size()));
  }
  EXPECT_EQ(step(*fast_, slices), expected);
  // In another order the runs of long and short slices are others.
  std::rotate(slices.begin(), slices.begin() + 3, slices.end());
  const std::size_t vocab = fast_->vocab_size();
  std::rotate(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(vocab),
              expected.end());
  EXPECT_EQ(step(*fast_, slices), expected);
}

// What the documents state about the cut of a prompt.
TEST_P(FastNumerics, TheCutOfAPromptMovesLogitsByLessThanTheirBound) {
  const Text text(0, 200);
  const std::vector<float> whole = last_logits(*fast_, text, {200});
  const std::vector<float> exact = last_logits(*exact_, text, {200});
  double largest = distance(whole, exact);
  std::vector<std::vector<std::size_t>> cuts{{150, 50}};
  if (!tests::kAddressSanitizer) cuts.insert(cuts.end(), {{100, 100}, {136, 64}, {63, 63, 63, 11}});
  for (const std::vector<std::size_t>& chunks : cuts) {
    largest = std::max(largest, distance(last_logits(*fast_, text, chunks), whole));
  }
  RecordProperty("largest_share_of_spread", std::to_string(largest));
  std::printf("largest difference: %.4f of the logits' spread\n", largest);
  EXPECT_LT(largest, 0.05);
}

TEST(KernelChoice, NumericsAreExactOrFastAndFastSaysWhereItIsExact) {
  const auto exact = engine::choose_kernels("auto", "exact");
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->level, kernels::best_level());
  EXPECT_EQ(exact->long_slice_table, nullptr);
  EXPECT_EQ(exact->instruction_set, kernels::to_string(kernels::best_level()));
  EXPECT_EQ(exact->numerics, "exact");
  EXPECT_EQ(exact->remark, "");

  const auto forced = engine::choose_kernels("scalar", "fast");
  ASSERT_TRUE(forced);
  EXPECT_EQ(forced->long_slice_table, nullptr) << "a lower level is forced";
  EXPECT_EQ(forced->numerics, "exact");
  EXPECT_EQ(forced->remark,
            "numerics fast is the same as exact at scalar: it needs AMX tiles of bf16");

  const auto fast = engine::choose_kernels("auto", "fast");
  ASSERT_TRUE(fast);
  const bool has_tiles =
      fast->level == kernels::Level::Amx &&
      kernels::has_numerics(kernels::Level::Amx, kernels::Numerics::Bf16);
  EXPECT_EQ(fast->long_slice_table != nullptr, has_tiles);
  EXPECT_EQ(fast->remark.empty(), has_tiles);

  const auto wrong = engine::choose_kernels("auto", "quick");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().where, "setting numerics");
  ASSERT_FALSE(engine::choose_kernels("sse9", "exact"));
}

}  // namespace
}  // namespace turnstile
