// draft_model.h: the second model of speculative_config, loaded beside the one that it drafts for.
//
// Its KV cache has a block for each kBlocksPerDraftBlock of the model's and is part of the memory
// that kv_cache_memory_bytes gives to both, so a draft model makes the pool smaller, never the
// server larger than it was told to be. It computes with the model's threads.
//
// Thread: main, before anything serves. Errors: sentences that begin with the file.
// Tests:  tests/gateway/draft_model_test.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "engine/limits.h"
#include "engine/loader/load_model.h"
#include "gateway/config/config.h"

namespace turnstile::gateway {

// Nothing where the configuration names none. Fails if the file cannot be served, needs more than
// what the loaded model leaves of `memory_bytes`, or has not the model's vocabulary.
tl::expected<std::optional<engine::LoadedModel>, std::string> load_draft_model(
    const ModelConfig& config, const engine::LoadedModel& model,
    std::optional<std::size_t> memory_bytes = std::nullopt);

// Of one block of the model's, and of its share of the draft model's.
std::size_t kv_block_bytes_of_both(const engine::Model& model,
                                   const std::optional<engine::LoadedModel>& draft);

// Blocks of the draft model's KV cache, from those of the model's.
std::size_t draft_kv_blocks(const engine::Limits& limits);

// For the log at the start: "draft model small: 12.3 MiB of weights, 80 KV blocks, ...".
std::string draft_model_text(const ModelConfig& config, const engine::LoadedModel& draft,
                             const engine::Limits& limits);

}  // namespace turnstile::gateway
