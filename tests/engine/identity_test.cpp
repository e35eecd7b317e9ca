// The bitwise promise: the logits of a sequence are the same bits whatever else is in the step,
// however its prompt is cut, wherever its blocks lie, and whether they were computed for it,
// shared with another sequence, copied, or computed again after a pause.
//
// Method: each text is computed alone, one token a step, by one thread. Then all texts run together
// with three threads through random steps: random chunks, random order, shuffled blocks that hold
// the remains of earlier rounds. Every row of logits must be equal byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/block_table.h"
#include "engine/loader/gguf.h"
#include "engine/model/llama.h"
#include "tests/support/golden_files.h"
#include "tests/support/random_llama.h"
#include "tests/support/repeats.h"

namespace turnstile {
namespace {

using engine::LlamaModel;
using engine::TokenId;
using kernels::BlockId;
using kernels::kKvBlockTokens;

constexpr std::size_t kStepRows = 96;
constexpr std::size_t kStepSlices = 32;

struct CrowdText {
  std::vector<TokenId> ids;
  std::size_t parent = 0;          // shares its first `shared` ids; itself when none
  std::size_t shared = 0;
  std::vector<std::vector<float>> logits;  // after each position, computed alone
};

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::mt19937 engine_;
};

std::vector<CrowdText> random_texts(std::size_t count, std::size_t max_tokens, std::size_t vocab,
                               Random& random) {
  std::vector<CrowdText> texts(count);
  for (std::size_t t = 0; t < count; ++t) {
    CrowdText& text = texts[t];
    text.parent = t;
    if (t > 0 && random.chance(60)) {
      text.parent = random.below(t);
      const std::vector<TokenId>& from = texts[text.parent].ids;
      text.shared = random.below(std::min(from.size(), max_tokens - 1)) + 1;
      text.ids.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(text.shared));
    }
    const std::size_t length = text.ids.size() + 1 + random.below(max_tokens - text.ids.size());
    while (text.ids.size() < length) text.ids.push_back(static_cast<TokenId>(random.below(vocab)));
  }
  return texts;
}

void compute_alone(LlamaModel& model, std::vector<CrowdText>& texts, std::size_t max_tokens) {
  std::vector<BlockId> blocks(engine::blocks_for(max_tokens));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  for (CrowdText& text : texts) {
    for (std::size_t i = 0; i < text.ids.size(); ++i) {
      const engine::StepSlice slice{std::span(text.ids).subspan(i, 1),
                                    static_cast<std::uint32_t>(i), blocks, true};
      text.logits.emplace_back(model.vocab_size());
      model.forward({&slice, 1}, text.logits.back());
    }
  }
}

// Wants the step so many times more.
struct AskedOften final : engine::StepWatch {
  explicit AskedOften(std::size_t times) : left(times) {}
  bool is_wanted() override { return left > 0 && left-- > 0; }
  std::size_t left;
};

// Runs all texts to their ends in random steps and compares every row of logits.
class Crowd {
 public:
  Crowd(LlamaModel& model, const std::vector<CrowdText>& texts, std::size_t pool_blocks,
        Random& random)
      : model_(model), texts_(texts), random_(random), runs_(texts.size()) {
    free_.resize(pool_blocks);
    std::iota(free_.begin(), free_.end(), BlockId{0});
    random_.shuffle(free_);
  }

  void run() {
    while (!finished() && !::testing::Test::HasFailure()) step();
  }
  std::size_t compared() const { return compared_; }
  std::size_t shared_blocks() const { return shared_blocks_; }
  std::size_t copied_blocks() const { return copied_blocks_; }

 private:
  struct Run {
    std::size_t computed = 0;  // the slices of this step included
    std::size_t written = 0;   // before this step: what others may share
    std::vector<BlockId> blocks;
  };

  bool finished() const {
    for (std::size_t t = 0; t < texts_.size(); ++t) {
      if (runs_[t].computed < texts_[t].ids.size()) return false;
    }
    return true;
  }

  BlockId take_block() {
    EXPECT_FALSE(free_.empty()) << "the test's pool is too small";
    const BlockId block = free_.back();
    free_.pop_back();
    return block;
  }

  // A prefix that the parent has computed: whole blocks by reference, the begun one as a copy.
  void start(std::size_t t) {
    const CrowdText& text = texts_[t];
    Run& run = runs_[t];
    run = Run{};
    const Run& parent = runs_[text.parent];
    if (text.parent == t || !random_.chance(90)) return;
    const std::size_t usable = std::min({text.shared, parent.written, text.ids.size() - 1});
    const std::size_t whole = usable / kKvBlockTokens;
    run.blocks.assign(parent.blocks.begin(),
                      parent.blocks.begin() + static_cast<std::ptrdiff_t>(whole));
    run.computed = whole * kKvBlockTokens;
    shared_blocks_ += whole;
    if (usable > run.computed && random_.chance(50)) {
      run.blocks.push_back(take_block());
      model_.copy_block(parent.blocks[whole], run.blocks.back());
      run.computed = usable;
      ++copied_blocks_;
    }
  }

  void step() {
    std::vector<std::size_t> order(texts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random_.shuffle(order);
    const std::size_t slice_limit = 1 + random_.below(kStepSlices);
    std::vector<engine::StepSlice> slices;
    std::vector<const float*> expected;
    std::size_t rows = 0;
    for (const std::size_t t : order) {
      Run& run = runs_[t];
      const CrowdText& text = texts_[t];
      if (run.computed == text.ids.size() || slices.size() == slice_limit) continue;
      // Most texts wait until there is a prefix to share.
      if (run.computed == 0 && runs_[text.parent].written < text.shared && random_.chance(80)) {
        continue;
      }
      if (run.computed == 0 || random_.chance(2)) start(t);  // 2 in 100: a pause, computed again
      const std::size_t left = text.ids.size() - run.computed;
      const std::size_t wanted = random_.chance(50) ? 1 : 1 + random_.below(60);
      const std::size_t count = std::min({left, wanted, kStepRows - rows});
      if (count == 0) break;
      while (run.blocks.size() < engine::blocks_for(run.computed + count)) {
        run.blocks.push_back(take_block());
      }
      // None, the last row's, or several as when guesses are verified.
      const std::size_t wanted_logits =
          random_.chance(30) ? 0 : random_.chance(60) ? 1 : 1 + random_.below(count);
      slices.push_back({std::span(text.ids).subspan(run.computed, count),
                        static_cast<std::uint32_t>(run.computed), run.blocks,
                        static_cast<std::uint32_t>(wanted_logits)});
      run.computed += count;
      rows += count;
      for (std::size_t i = run.computed - wanted_logits; i < run.computed; ++i) {
        expected.push_back(text.logits[i].data());
      }
    }
    compare(slices, expected);
  }

  void compare(const std::vector<engine::StepSlice>& slices,
               const std::vector<const float*>& expected) {
    const std::size_t vocab = model_.vocab_size();
    std::vector<float> logits(expected.size() * vocab);
    // A step that was given up in the middle leaves nothing that the next one sees.
    if (++steps_ % 16 == 0) {
      AskedOften watch(steps_ / 16 % static_cast<std::size_t>(model_.config().layers));
      EXPECT_FALSE(model_.forward(slices, logits, &watch));
      EXPECT_EQ(watch.left, 0U) << "it is asked after every layer";
    }
    model_.forward(slices, logits);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::memcmp(logits.data() + i * vocab, expected[i], vocab * sizeof(float)), 0)
          << "row " << i << " of a step of " << slices.size() << " slices";
      ++compared_;
    }
    for (Run& run : runs_) run.written = run.computed;
  }

  std::size_t steps_ = 0;
  LlamaModel& model_;
  const std::vector<CrowdText>& texts_;
  Random& random_;
  std::vector<Run> runs_;
  std::vector<BlockId> free_;
  std::size_t compared_ = 0;
  std::size_t shared_blocks_ = 0;
  std::size_t copied_blocks_ = 0;
};

std::unique_ptr<LlamaModel> load(const engine::GgufFile& file, kernels::Level level,
                                 kernels::Numerics numerics, kernels::KvType kv_type, int threads,
                                 std::size_t blocks, std::size_t rows) {
  engine::LlamaOptions options;
  options.kv_type = kv_type;
  options.level = level;
  options.numerics = numerics;
  options.threads = threads;
  auto model = LlamaModel::load(file, options);
  EXPECT_TRUE(model) << model.error().where << ": " << model.error().what;
  EXPECT_TRUE((*model)->reserve(blocks, rows, kStepRows));
  return std::move(*model);
}

struct Plan {
  std::size_t texts = 0;
  std::size_t max_tokens = 0;
  std::size_t rounds = 1;
  kernels::KvType kv_type = kernels::KvType::F16;
};

void check_identity(const engine::GgufFile& file, kernels::Level level,
                    kernels::Numerics numerics, std::uint32_t seed, const Plan& plan) {
  SCOPED_TRACE("level " + std::string(kernels::to_string(level)) + ", numerics " +
               std::to_string(static_cast<int>(numerics)) + ", cache " +
               std::to_string(static_cast<int>(plan.kv_type)) + ", seed " + std::to_string(seed));
  Random random(seed);
  const std::size_t pool = plan.texts * engine::blocks_for(plan.max_tokens) * 3;
  auto alone = load(file, level, numerics, plan.kv_type, 1, engine::blocks_for(plan.max_tokens), 1);
  auto crowd_model = load(file, level, numerics, plan.kv_type, 3, pool, kStepRows);
  std::size_t shared = 0;
  std::size_t copied = 0;
  std::size_t compared = 0;
  for (std::size_t round = 0; round < plan.rounds; ++round) {
    std::vector<CrowdText> texts =
        random_texts(plan.texts, plan.max_tokens, alone->vocab_size(), random);
    compute_alone(*alone, texts, plan.max_tokens);
    Crowd crowd(*crowd_model, texts, pool, random);
    crowd.run();
    if (::testing::Test::HasFailure()) return;
    EXPECT_GT(crowd.compared(), 0U);
    compared += crowd.compared();
    shared += crowd.shared_blocks();
    copied += crowd.copied_blocks();
  }
  // Few and short texts may share nothing and each fit into one step.
  if (tests::kAddressSanitizer) return;
  EXPECT_GT(compared, plan.rounds * plan.texts);
  EXPECT_GT(shared + copied, 0U) << "no prefix was shared: the test lost its point";
}

constexpr std::size_t kCrowdTexts = tests::kAddressSanitizer ? 6 : 32;
constexpr std::size_t kCrowdTokens = tests::kAddressSanitizer ? 40 : 120;
// Tokens that attention takes in more than this many chunks of positions.
constexpr std::size_t kManyChunks = tests::kAddressSanitizer ? 1 : 3;

class Identity : public ::testing::TestWithParam<kernels::Level> {};

TEST_P(Identity, LogitsDoNotDependOnTheCrowd) {
  if (!kernels::level_supported(GetParam())) {
    GTEST_SKIP() << "this CPU has no " << kernels::to_string(GetParam());
  }
  std::uint32_t seed = 11;
  for (const tests::LlamaShape& shape : tests::special_shapes()) {
    const std::vector<std::byte> bytes = tests::random_llama(shape, seed).serialize();
    const auto file = engine::GgufFile::parse(bytes);
    ASSERT_TRUE(file) << file.error().where << ": " << file.error().what;
    // The Scalar level takes thirty times as long, so it gets less of the same.
    const bool scalar = GetParam() == kernels::Level::Scalar;
    check_identity(*file, GetParam(), kernels::Numerics::Int8, seed++,
                   {.texts = scalar ? kCrowdTexts * 2 / 3 : kCrowdTexts,
                    .max_tokens = kCrowdTokens,
                    .rounds = scalar ? 1U : 2U});
    if (!scalar) {
      check_identity(*file, GetParam(), kernels::Numerics::Int8, seed,
                     {.texts = kCrowdTexts,
                      .max_tokens = kCrowdTokens,
                      .kv_type = kernels::KvType::Int8});
    }
    if (scalar) {
      check_identity(*file, GetParam(), kernels::Numerics::Float32, seed++,
                     {.texts = kCrowdTexts / 3 + 1,
                      .max_tokens = kCrowdTokens / 3 * 2,
                      .rounds = 1});
    }
  }
}

TEST_P(Identity, HoldsForEveryHeadSize) {
  if (!kernels::level_supported(GetParam())) {
    GTEST_SKIP() << "this CPU has no " << kernels::to_string(GetParam());
  }
  std::uint32_t seed = 51;
  for (const tests::LlamaShape& shape : tests::head_size_shapes()) {
    const std::vector<std::byte> bytes = tests::random_llama(shape, seed).serialize();
    const auto file = engine::GgufFile::parse(bytes);
    ASSERT_TRUE(file);
    for (const kernels::KvType kv_type : {kernels::KvType::F16, kernels::KvType::Int8}) {
      check_identity(*file, GetParam(), kernels::Numerics::Int8, seed,
                     {.texts = tests::kAddressSanitizer ? 2U : 8U,
                      .max_tokens = kCrowdTokens / 2,
                      .rounds = 1,
                      .kv_type = kv_type});
    }
    ++seed;
  }
}

// Long enough that attention takes several chunks of positions.
TEST_P(Identity, HoldsOverSeveralAttentionChunks) {
  if (!kernels::level_supported(GetParam())) {
    GTEST_SKIP() << "this CPU has no " << kernels::to_string(GetParam());
  }
  tests::LlamaShape shape;
  shape.context = 1024;
  const std::vector<std::byte> bytes = tests::random_llama(shape, 21).serialize();
  const auto file = engine::GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  const bool scalar = GetParam() == kernels::Level::Scalar;
  for (const kernels::KvType kv_type : {kernels::KvType::F16, kernels::KvType::Int8}) {
    if (scalar && kv_type == kernels::KvType::Int8) continue;  // the kernels' tests: equal bits
    check_identity(*file, GetParam(), kernels::Numerics::Int8, 21,
                   {.texts = scalar ? 4U : 6U,
                    .max_tokens = kManyChunks * kernels::kAttentionChunk + 40,
                    .rounds = 1,
                    .kv_type = kv_type});
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Identity,
                         ::testing::ValuesIn(kernels::kLevels),
                         [](const auto& level) {
                           std::string name(kernels::to_string(level.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(IdentityOfTheRealModel, LogitsDoNotDependOnTheCrowd) {
  const auto path = tests::test_model_path();
  if (!path) GTEST_SKIP() << tests::kNoTestModel;
  const auto file = engine::GgufFile::open(*path);
  ASSERT_TRUE(file) << file.error().what;
  for (const kernels::KvType kv_type : {kernels::KvType::F16, kernels::KvType::Int8}) {
    check_identity(*file, kernels::best_level(), kernels::Numerics::Int8, 31,
                   {.texts = 6, .max_tokens = 60, .rounds = 1, .kv_type = kv_type});
  }
}

}  // namespace
}  // namespace turnstile
