// What an int8 cache may cost to be the default: against the same model with a cache of halves, a
// mean divergence of 0.01 and half a percent of likelihood, over a text that it has not made.
// Here over two windows; over all of them the figures are in ARCHITECTURE.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/model/llama.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/golden_files.h"
#include "tests/support/teacher_forcing.h"

namespace turnstile {
namespace {

using engine::TokenId;

// Divergence of q from p, both given as logits.
double divergence(std::span<const float> p, std::span<const float> q) {
  const double p_normalizer = tests::log_sum_exp(p);
  const double q_normalizer = tests::log_sum_exp(q);
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - p_normalizer;
    sum += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_normalizer));
  }
  return sum;
}

std::unique_ptr<engine::LlamaModel> load(const engine::GgufFile& file, kernels::KvType kv_type) {
  engine::LlamaOptions options;
  options.level = kernels::best_level();
  options.kv_type = kv_type;
  options.threads = 2;
  auto model = engine::LlamaModel::load(file, options);
  if (!model) return nullptr;
  EXPECT_TRUE((*model)->reserve(130, tests::kForcingRows, tests::kForcingLogitsRows));
  return std::move(*model);
}

std::vector<TokenId> perplexity_ids(const engine::GgufFile& file) {
  const auto tokenizer = engine::Tokenizer::from_gguf(file);
  std::ifstream in(tests::golden_path("smollm2/perplexity.txt"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<TokenId> ids;
  if (tokenizer) tokenizer->encode(text, engine::ParseSpecial::No, ids);
  return ids;
}

struct Window {
  std::size_t begin, length, first;  // predictions of [first, length)
};

struct Comparison {
  double divergence = 0.0;
  double nll_halves = 0.0;
  double nll_bytes = 0.0;
  std::size_t count = 0;

  double mean() const { return divergence / static_cast<double>(count); }
  double nll_change() const { return nll_bytes / nll_halves - 1.0; }
};

void compare(engine::Model& halves, engine::Model& bytes, std::span<const TokenId> text,
             std::size_t first, Comparison& sum) {
  std::vector<std::vector<float>> expected;
  tests::for_each_prediction(halves, text, first, [&](std::size_t, std::span<const float> logits) {
    expected.emplace_back(logits.begin(), logits.end());
  });
  const auto nll = [](std::span<const float> logits, TokenId id) {
    return tests::log_sum_exp(logits) - static_cast<double>(logits[id]);
  };
  tests::for_each_prediction(bytes, text, first, [&](std::size_t i, std::span<const float> logits) {
    const std::vector<float>& reference = expected[i - first];
    sum.divergence += divergence(reference, logits);
    sum.nll_halves += nll(reference, text[i]);
    sum.nll_bytes += nll(logits, text[i]);
    ++sum.count;
  });
}

TEST(KvAccuracyOfTheRealModel, Int8StaysNearHalves) {
  const auto path = tests::test_model_path();
  if (!path) GTEST_SKIP() << tests::kNoTestModel;
  const auto file = engine::GgufFile::open(*path);
  ASSERT_TRUE(file) << file.error().what;
  const auto halves = load(*file, kernels::KvType::F16);
  const auto bytes = load(*file, kernels::KvType::Int8);
  ASSERT_TRUE(halves && bytes);
  EXPECT_LT(bytes->kv_block_bytes(), halves->kv_block_bytes() * 54 / 100);
  const std::vector<TokenId> ids = perplexity_ids(*file);
  ASSERT_EQ(ids.size(), 2759U);

  Comparison all;
  for (const Window& window : {Window{0, 512, 256}, Window{0, 2048, 1920}}) {
    Comparison part;
    compare(*halves, *bytes, std::span(ids).subspan(window.begin, window.length), window.first,
            part);
    std::printf("%zu predictions up to position %zu: mean KL %.5f, NLL %+.3f %%\n", part.count,
                window.length, part.mean(), 100.0 * part.nll_change());
    all.divergence += part.divergence;
    all.nll_halves += part.nll_halves;
    all.nll_bytes += part.nll_bytes;
    all.count += part.count;
  }
  std::printf("all: mean KL %.5f, NLL %+.3f %%\n", all.mean(), 100.0 * all.nll_change());
  EXPECT_LE(all.mean(), 0.01);
  EXPECT_LE(std::abs(all.nll_change()), 0.005);
}

}  // namespace
}  // namespace turnstile
