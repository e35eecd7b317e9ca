#include "engine/kv_pool_size.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/block_table.h"
#include "engine/loader/kv_cache_dtype.h"
#include "engine/memory_text.h"
#include "tests/support/engine_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"

namespace turnstile::engine {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = kMiB << 10;

// Blocks of 1 MiB, 8 sequences of at most 16,000 tokens.
KvPoolFacts facts() {
  return {.written_bytes = {},
          .left_bytes = {},
          .block_bytes = kMiB,
          .max_num_seqs = 8,
          .max_tokens = 16'000};
}

TEST(KvPoolSize, AWrittenSizeIsTaken) {
  KvPoolFacts given = facts();
  given.written_bytes = 100 * kMiB + 5;
  EXPECT_EQ(kv_pool_blocks(given), 100U);
  given.left_bytes = 101 * kMiB;  // the reserve is for sizes that nobody wrote
  EXPECT_EQ(kv_pool_blocks(given), 100U);
  given.max_num_seqs = 1;
  given.max_tokens = 16;
  EXPECT_EQ(kv_pool_blocks(given), 100U);
}

TEST(KvPoolSize, AWrittenSizeThatIsNotLeftIsASentence) {
  KvPoolFacts given = facts();
  given.written_bytes = 3 * kGiB;
  given.left_bytes = 3 * kGiB - 1;
  const auto blocks = kv_pool_blocks(given);
  ASSERT_FALSE(blocks);
  EXPECT_NE(blocks.error().find("kv_cache_memory_bytes is 3.0 GiB, but 2.9 GiB"),
            std::string::npos)
      << blocks.error();
}

TEST(KvPoolSize, AWrittenSizeThatHoldsNoSequenceWorthServingIsASentence) {
  KvPoolFacts given = facts();
  given.written_bytes = 16 * kMiB;  // 256 tokens
  EXPECT_EQ(kv_pool_blocks(given), 16U);
  given.written_bytes = 16 * kMiB - 1;
  const auto blocks = kv_pool_blocks(given);
  ASSERT_FALSE(blocks);
  EXPECT_NE(blocks.error().find("one sequence of 256 tokens takes 16.0 MiB: write more"),
            std::string::npos)
      << blocks.error();
  given.max_tokens = 240;  // as max_model_len says
  EXPECT_EQ(kv_pool_blocks(given), 15U);
}

TEST(KvPoolSize, AnUnwrittenSizeIsHalfOfWhatTheReserveLeaves) {
  KvPoolFacts given = facts();
  given.left_bytes = kMemoryReserveBytes + 600 * kMiB;
  EXPECT_EQ(kv_pool_blocks(given), 300U);
  given.left_bytes = std::nullopt;
  EXPECT_EQ(kv_pool_blocks(given), kPoolBytesUnknown / kMiB);
}

TEST(KvPoolSize, NoMoreThanAllSequencesCouldEverHold) {
  KvPoolFacts given = facts();
  given.left_bytes = 1000 * kGiB;
  EXPECT_EQ(kv_pool_blocks(given), 8U * 1000);
  given.max_tokens = 17;
  EXPECT_EQ(kv_pool_blocks(given), 8U * 2);
}

TEST(KvPoolSize, InSuchAPoolNobodyWaitsOrIsPaused) {
  for (const std::uint32_t guesses : {0U, 4U}) {
    for (const std::uint32_t max_model_len : {112U, 113U}) {
      Limits limits = tests::roomy_limits();
      limits.max_model_len = max_model_len;
      limits.max_num_seqs = 4;
      limits.kv_cache_blocks = 4 * blocks_for(max_model_len);
      limits.speculation.num_speculative_tokens = guesses;
      limits.speculation.prompt_lookup_min = 1;
      tests::ToyModelOptions model;
      model.habit = 9.0F;
      tests::EngineRun run(tests::toy_engine(limits, model));
      for (RequestId id = 0; id < 4; ++id) {
        Request request = tests::greedy_request(
            id, tests::letters(20, static_cast<std::uint32_t>(id) + 1), max_model_len - 20);
        request.stop.ignore_eos = true;
        run.add(request);
      }
      std::uint32_t most_running = 0;
      while (run.has_work()) {
        run.step();
        most_running = std::max(most_running, run.output().stats.running_sequences);
        EXPECT_EQ(run.output().stats.preemptions, 0U);
      }
      EXPECT_EQ(most_running, 4U);
      EXPECT_EQ(run.result(3).choices[0].tokens.size(), max_model_len - 20);
    }
  }
}

TEST(KvPoolSize, TooLittleForOneSequenceIsASentence) {
  KvPoolFacts given = facts();
  given.left_bytes = kMemoryReserveBytes + 32 * kMiB;  // half: 16 blocks, 256 tokens
  EXPECT_EQ(kv_pool_blocks(given), 16U);
  given.left_bytes = kMemoryReserveBytes + 31 * kMiB;
  const auto blocks = kv_pool_blocks(given);
  ASSERT_FALSE(blocks);
  EXPECT_NE(blocks.error().find("256 tokens takes 16.0 MiB"), std::string::npos) << blocks.error();
  given.left_bytes = 0;
  EXPECT_FALSE(kv_pool_blocks(given));
  given.max_tokens = 16;  // a model whose context is one block
  given.left_bytes = kMemoryReserveBytes + 2 * kMiB;
  EXPECT_EQ(kv_pool_blocks(given), 1U);
}

TEST(MemoryText, ReadsAsAPersonWouldSayIt) {
  EXPECT_EQ(memory_text(0), "0.0 MiB");
  EXPECT_EQ(memory_text(kMiB / 2), "0.5 MiB");
  EXPECT_EQ(memory_text(1023 * kMiB + kMiB / 2), "1023.5 MiB");
  EXPECT_EQ(memory_text(kGiB), "1.0 GiB");
  EXPECT_EQ(memory_text(3 * kGiB + 205 * kMiB), "3.2 GiB");
  EXPECT_EQ(memory_text(~std::size_t{0}), "17179869183.9 GiB");
}

TEST(KvCacheDtype, NamesAreTheSettingsValues) {
  EXPECT_EQ(choose_kv_type("auto"), kDefaultKvType);
  EXPECT_EQ(choose_kv_type("f16"), kernels::KvType::F16);
  EXPECT_EQ(choose_kv_type("int8"), kernels::KvType::Int8);
  for (const char* wrong : {"", "f32", "INT8", "fp8"}) EXPECT_FALSE(choose_kv_type(wrong)) << wrong;
}

}  // namespace
}  // namespace turnstile::engine
