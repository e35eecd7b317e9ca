#include "gateway/draft_model.h"

#include <algorithm>
#include <utility>

#include "engine/block_table.h"
#include "engine/loader/same_vocabulary.h"
#include "engine/memory_text.h"
#include "gateway/vanishing_file.h"

namespace turnstile::gateway {

tl::expected<std::optional<engine::LoadedModel>, std::string> load_draft_model(
    const ModelConfig& config, const engine::LoadedModel& model,
    std::optional<std::size_t> memory_bytes) {
  if (config.draft_model.empty()) return std::nullopt;
  const std::string path = config.draft_model.string();
  const VanishingFile watched(path);
  if (memory_bytes) *memory_bytes -= std::min(*memory_bytes, model.weight_bytes);
  auto draft = engine::load_model(path, {.workers = model.model->workers(),
                                         .kernels = config.kernels,
                                         .memory_bytes = memory_bytes});
  if (!draft) {
    return tl::unexpected(path + ": " + draft.error().where + ": " + draft.error().what);
  }
  if (auto difference = engine::find_vocabulary_difference(*model.tokenizer, *draft->tokenizer)) {
    return tl::unexpected(path + ": the draft model " + *difference +
                          ": it must have the vocabulary of " + config.path.string());
  }
  return std::optional(std::move(*draft));
}

std::size_t kv_block_bytes_of_both(const engine::Model& model,
                                   const std::optional<engine::LoadedModel>& draft) {
  const std::size_t own = model.kv_block_bytes();
  if (!draft) return own;
  constexpr std::size_t kShare = engine::kBlocksPerDraftBlock;
  return own + (draft->model->kv_block_bytes() + kShare - 1) / kShare;
}

std::size_t draft_kv_blocks(const engine::Limits& limits) {
  const std::size_t useful = std::min(limits.max_num_seqs, engine::kMaxDraftSequences) *
                             engine::blocks_for(limits.max_model_len);
  return std::clamp<std::size_t>(limits.kv_cache_blocks / engine::kBlocksPerDraftBlock, 1,
                                 std::max<std::size_t>(useful, 1));
}

std::string draft_model_text(const ModelConfig& config, const engine::LoadedModel& draft,
                             const engine::Limits& limits) {
  const std::size_t blocks = limits.speculation.draft_kv_blocks;
  return "draft model " + config.draft_model.stem().string() + ": " +
         engine::memory_text(draft.weight_bytes) + " of weights, " + std::to_string(blocks) + " KV blocks, " +
         engine::memory_text(blocks * draft.model->kv_block_bytes()) + ", up to " +
         std::to_string(limits.speculation.num_speculative_tokens) + " guesses";
}

}  // namespace turnstile::gateway
