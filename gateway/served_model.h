// served_model.h: the model of the configuration, loaded, with the engine's limits worked out.
//
// Thread: main, before anything serves. Errors: sentences for standard error.
// Tests:  tests/gateway/spine_parts_test.cpp (limits), tests/e2e (loading).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include <tl/expected.hpp>

#include "engine/engine.h"
#include "engine/limits.h"
#include "engine/loader/load_model.h"
#include "gateway/config/config.h"

namespace turnstile::gateway {

struct ServedModel {
  std::string name;  // as policies refer to it with `serves`
  std::shared_ptr<const engine::Tokenizer> tokenizer;
  std::optional<engine::ChatTemplate> chat_template;
  engine::Limits limits;
  std::string draft_model;  // what to tell of it at the start; empty: none
  std::unique_ptr<engine::Engine> engine;
};

// The name from the file, else the stem of the path.
std::string model_name(const ModelConfig& config);

// Blocks that fit the KV memory; max_model_len as set, else what the model and the blocks allow.
// `kv_block_bytes`: of a block with its share of a draft model's KV cache (draft_model.h).
// `left_bytes`: the memory that is left beside the weights, where it is known; it decides the KV
// memory that is not written (engine/kv_pool_size.h). The error is a sentence without the path.
tl::expected<engine::Limits, std::string> engine_limits(
    const ModelConfig& config, std::size_t kv_block_bytes, std::size_t context_length,
    std::optional<std::size_t> left_bytes = std::nullopt);

// How many engine requests can be open at once; absent where connections have no limit. Slots do
// not bound them: a paused request stays open and holds none, and others of its class may start
// before it goes on, so no queue bounds them either. But each has a connection, which has one
// request at a time, of at most kMaxPrompts prompts and no more of them than there are slots. As
// many again as there are slots may have been torn down with their connection while the engine has
// yet to confirm their end; the engine's thread takes no more before it has.
std::optional<std::size_t> most_engine_requests(const engine::Limits& engine,
                                                const LimitsConfig& limits);

// Limits and engine around a model that is loaded. The error is a sentence without the path.
tl::expected<ServedModel, std::string> serve_loaded_model(
    const ModelConfig& config, engine::LoadedModel loaded,
    std::optional<engine::LoadedModel> draft = {},
    std::optional<std::size_t> left_bytes = {});

// Shows progress on `err` when that is a terminal.
tl::expected<ServedModel, std::string> load_served_model(const ModelConfig& config,
                                                         std::ostream& err);

}  // namespace turnstile::gateway
