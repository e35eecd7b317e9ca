// The small checkpoints of architecture `llama` against reference outputs, for both numerics.
//
// `llama`: 8 query and 2 key heads, head size not hidden/heads, untied head.
// `llama_tied_rope_scaled`: Llama 3 rope scaling as a tensor, tied head.
#include <gtest/gtest.h>

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/model/llama.h"
#include "tests/support/gguf_blocks.h"
#include "tests/support/golden_files.h"
#include "tests/support/random_llama.h"
#include "tests/support/repeats.h"
#include "tests/support/teacher_forcing.h"

namespace turnstile {
namespace {

using engine::TokenId;

// Every product that `numerics = "fast"` may compute in bf16 is, whatever the length of its slice.
void compute_in_bf16(engine::LlamaOptions& options) {
  options.long_slice_table =
      &kernels::kernel_table(kernels::Level::Scalar, kernels::Numerics::Bf16);
  options.long_slice_rows = 1;
}

std::unique_ptr<engine::LlamaModel> load_tiny(const std::string& family, kernels::Level level,
                                              kernels::Numerics numerics, int threads,
                                              bool in_bf16 = false) {
  const auto file = engine::GgufFile::open(tests::golden_path("tiny/" + family + "/model.gguf"));
  EXPECT_TRUE(file) << file.error().where << ": " << file.error().what;
  engine::LlamaOptions options;
  options.level = level;
  options.numerics = numerics;
  options.threads = threads;
  if (in_bf16) compute_in_bf16(options);
  auto model = engine::LlamaModel::load(*file, options);
  EXPECT_TRUE(model) << model.error().where << ": " << model.error().what;
  EXPECT_TRUE((*model)->reserve(16, 256, tests::kForcingLogitsRows));
  return std::move(*model);
}

template <typename T>
std::vector<T> numbers(simdjson::dom::element array) {
  std::vector<T> out;
  for (const auto value : simdjson::dom::array(array)) {
    out.push_back(static_cast<T>(double(value)));
  }
  return out;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0.0F;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

struct Bounds {
  float last_logits;
  double margin;  // greedy ids must be equal where the reference's margin is above
};

// Last logits, chunks of every stated split, the argmax of every position, and 16 greedy tokens.
void check_family(const std::string& family, engine::LlamaModel& model, const Bounds& bounds) {
  simdjson::dom::parser parser;
  simdjson::dom::element expected =
      parser.load(tests::golden_path("tiny/" + family + "/expected.json"));
  for (const auto sequence : expected["sequences"].get_array()) {
    const auto ids = numbers<TokenId>(sequence["ids"]);
    SCOPED_TRACE(family + ", length " + std::to_string(ids.size()));
    EXPECT_LE(largest_difference(tests::last_logits(model, ids),
                                 numbers<float>(sequence["last_logits"])),
              bounds.last_logits);

    simdjson::dom::array chunks;
    if (sequence["chunks"].get(chunks) == simdjson::SUCCESS) {
      for (const auto chunk : chunks) {
        EXPECT_LE(largest_difference(
                      tests::last_logits(model, ids, std::size_t(std::uint64_t(chunk["split"]))),
                      numbers<float>(chunk["last_logits"])),
                  bounds.last_logits);
      }
    }

    std::vector<TokenId> text = ids;
    std::vector<double> margins;
    for (const auto step : sequence["greedy"].get_array()) {
      text.push_back(static_cast<TokenId>(std::uint64_t(step["id"])));
      margins.push_back(double(step["margin"]));
    }
    tests::for_each_prediction(
        model, text, ids.size(), [&](std::size_t i, std::span<const float> logits) {
          if (margins[i - ids.size()] > bounds.margin) {
            EXPECT_EQ(tests::argmax(logits), text[i]);
          }
        });
  }
}

constexpr const char* kFamilies[] = {"llama", "llama_tied_rope_scaled"};
constexpr Bounds kExact{5e-4F, 0.0};
constexpr Bounds kHalfCache{0.1F, 0.2};

TEST(LlamaTiny, ReferenceNumericsGiveTheReferenceLogitsAndText) {
  for (const char* family : kFamilies) {
    const auto model = load_tiny(family, kernels::Level::Scalar, kernels::Numerics::Float32, 1);
    check_family(family, *model, kExact);
  }
}

TEST(LlamaTiny, EveryLevelWithHalfPrecisionCacheStaysWithinItsBound) {
  for (const kernels::Level level : kernels::kLevels) {
    if (!kernels::level_supported(level)) continue;
    for (const char* family : kFamilies) {
      // The same code reads both; the float reference and bf16 take both there too.
      if (tests::kAddressSanitizer && family != kFamilies[1]) continue;
      SCOPED_TRACE(kernels::to_string(level));
      const auto model = load_tiny(family, level, kernels::Numerics::Int8, 2);
      check_family(family, *model, kHalfCache);
    }
  }
}

TEST(LlamaTiny, ProductsInBf16StayWithinTheBoundOfAHalfPrecisionCache) {
  for (const char* family : kFamilies) {
    const auto model =
        load_tiny(family, kernels::best_level(), kernels::Numerics::Int8, 2, /*in_bf16=*/true);
    check_family(family, *model, kHalfCache);
  }
}

// Predictions inside a step (slices of one token) are those of a sequence fed at once.
TEST(LlamaTiny, EveryPositionPredictsTheReferenceArgmax) {
  simdjson::dom::parser parser;
  for (const char* family : kFamilies) {
    const auto model = load_tiny(family, kernels::Level::Scalar, kernels::Numerics::Float32, 2);
    simdjson::dom::element expected =
        parser.load(tests::golden_path(std::string("tiny/") + family + "/expected.json"));
    for (const auto sequence : expected["sequences"].get_array()) {
      auto ids = numbers<TokenId>(sequence["ids"]);
      const auto best = numbers<TokenId>(sequence["argmax_at_each_position"]);
      ASSERT_EQ(best.size(), ids.size());
      ids.push_back(0);  // a place after the last id, so that its prediction is asked for too
      std::size_t count = 0;
      tests::for_each_prediction(*model, ids, 1,
                                 [&](std::size_t i, std::span<const float> logits) {
                                   EXPECT_EQ(tests::argmax(logits), best[i - 1]) << family << i;
                                   ++count;
                                 });
      EXPECT_EQ(count, best.size());
    }
  }
}

// Random prompt, last logits.
std::vector<float> logits_of(const engine::GgufFile& file, kernels::Level level,
                             kernels::Numerics numerics, bool in_bf16 = false) {
  engine::LlamaOptions options;
  options.level = level;
  options.numerics = numerics;
  options.threads = 2;
  if (in_bf16) compute_in_bf16(options);
  auto model = engine::LlamaModel::load(file, options);
  EXPECT_TRUE(model) << model.error().where << ": " << model.error().what;
  EXPECT_TRUE((*model)->reserve(8, 100, 1));
  std::vector<TokenId> ids;
  const TokenId length = tests::kAddressSanitizer ? 40 : 90;
  for (TokenId i = 0; i < length; ++i) ids.push_back(i * 61 % 151);
  return tests::last_logits(**model, ids, 100);
}

double relative_error(const std::vector<float>& logits, const std::vector<float>& expected) {
  double squares = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    squares += static_cast<double>(expected[i]) * expected[i];
    difference += std::pow(static_cast<double>(logits[i]) - expected[i], 2);
  }
  return std::sqrt(difference / squares);
}

// The integer path of every level against the float reference on the same file. The error of 8-bit
// activations is 1 to 2 % of a logit's spread; a forgotten quantisation, a wrong scale or a wrong
// type gives an error as large as the logits.
void check_every_level(const tests::LlamaShape& shape, std::uint32_t seed) {
  const std::vector<std::byte> bytes = tests::random_llama(shape, seed).serialize();
  const auto file = engine::GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  const auto expected = logits_of(*file, kernels::Level::Scalar, kernels::Numerics::Float32);
  for (const kernels::Level level : kernels::kLevels) {
    if (!kernels::level_supported(level)) continue;
    EXPECT_LE(relative_error(logits_of(*file, level, kernels::Numerics::Int8), expected), 0.06)
        << kernels::to_string(level);
  }
  EXPECT_LE(relative_error(
                logits_of(*file, kernels::best_level(), kernels::Numerics::Int8, /*in_bf16=*/true),
                expected),
            0.06)
      << "bf16";
}

TEST(LlamaTiny, IntegerPathStaysNearTheReferenceForSpecialShapes) {
  std::uint32_t seed = 41;
  for (const tests::LlamaShape& shape : tests::special_shapes()) check_every_level(shape, seed++);
}

TEST(LlamaTiny, IntegerPathStaysNearTheReferenceForEveryFormatTiedAndUntied) {
  std::uint32_t seed = 61;
  for (const engine::GgufType type : tests::kWeightFormats) {
    // Tests of the kernels and of the loader take every format through the address sanitizer.
    if (tests::kAddressSanitizer && seed % 5 != 1) {
      ++seed;
      continue;
    }
    SCOPED_TRACE(engine::find_gguf_type(static_cast<std::uint32_t>(type))->name);
    tests::LlamaShape shape;
    shape.hidden = 256;
    shape.feed_forward = 256;
    shape.q_heads = 4;
    shape.kv_heads = 1;
    shape.head_dim = 64;
    shape.rotary_dim = 64;
    shape.types = {type};
    shape.tied = seed % 2 == 0;
    check_every_level(shape, seed++);
  }
}

TEST(LlamaTiny, IntegerPathStaysNearTheReferenceForEveryHeadSize) {
  std::uint32_t seed = 81;
  for (const tests::LlamaShape& shape : tests::head_size_shapes()) {
    SCOPED_TRACE("head size " + std::to_string(shape.head_dim));
    check_every_level(shape, seed++);
  }
}

}  // namespace
}  // namespace turnstile
