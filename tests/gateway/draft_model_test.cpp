// A server's two models: what is loaded, what is refused, and who gets how much memory.
#include "gateway/draft_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "engine/block_table.h"
#include "gateway/served_model.h"
#include "tests/support/golden_files.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

ModelConfig tiny(const std::string& draft) {
  ModelConfig config;
  config.path = tests::golden_path("tiny/llama/model.gguf");
  config.threads = 2;
  config.max_model_len = 256;
  config.kv_cache_memory_bytes = std::size_t{8} << 20;
  if (!draft.empty()) {
    config.draft_model = draft;
    config.speculative_config = R"({"model":")" + draft + R"(","num_speculative_tokens":4})";
  }
  return config;
}

TEST(DraftModel, DraftsForAModelOfItsVocabularyInTheSameMemory) {
  std::ostringstream err;
  auto alone = load_served_model(tiny(""), err);
  auto both =
      load_served_model(tiny(tests::golden_path("tiny/llama_tied_rope_scaled/model.gguf")), err);
  ASSERT_TRUE(alone) << alone.error();
  ASSERT_TRUE(both) << both.error();
  EXPECT_TRUE(alone->draft_model.empty());
  EXPECT_NE(both->draft_model.find("of weights"), std::string::npos) << both->draft_model;
  EXPECT_LT(both->limits.kv_cache_blocks, alone->limits.kv_cache_blocks)
      << "the rest is the draft's";
  EXPECT_EQ(both->limits.speculation.draft_kv_blocks,
            both->limits.kv_cache_blocks / engine::kBlocksPerDraftBlock);

  engine::Request request;
  request.id = 1;
  request.prompt = {20, 30, 40};
  request.stop.max_tokens = 60;
  request.stop.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  std::string texts[2];
  std::uint32_t drafted = 0;
  for (ServedModel* served : {&*alone, &*both}) {
    served->engine->add(request);
    engine::StepOutput out;
    while (served->engine->has_work()) {
      out.clear();
      served->engine->step(out);
      served->engine->check_invariants();
      drafted += out.stats.draft_tokens;
      for (const auto& event : out.events) {
        if (event.kind != engine::EventKind::Token) continue;
        texts[served == &*both ? 1 : 0] += std::to_string(event.token) + " ";
      }
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_GT(drafted, 0U);
}

TEST(DraftModel, AFileThatCannotDraftIsRefusedInOneSentence) {
  std::ostringstream err;
  const TempFolder folder;
  const std::string missing = (folder / "none.gguf").string();
  const auto none = load_served_model(tiny(missing), err);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().starts_with(missing)) << none.error();
}

TEST(DraftModel, BlocksAreAShareOfTheModelsAndNoMoreThanItCanUse) {
  engine::Limits limits;
  limits.max_num_seqs = 64;
  limits.max_model_len = 160;
  limits.kv_cache_blocks = 400;
  EXPECT_EQ(draft_kv_blocks(limits), 100U);
  limits.kv_cache_blocks = 2;
  EXPECT_EQ(draft_kv_blocks(limits), 1U);
  limits.kv_cache_blocks = 100'000;
  EXPECT_EQ(draft_kv_blocks(limits), engine::kMaxDraftSequences * engine::blocks_for(160));
}

}  // namespace
}  // namespace turnstile::gateway
