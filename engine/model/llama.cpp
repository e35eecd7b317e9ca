#include "engine/model/llama.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/model/llama_layer.h"
#include "kernels/attention_parts.h"

namespace turnstile::engine {

namespace {

// Keeps bytes of all kinds far from overflow; no machine has an exabyte.
constexpr std::size_t kMaxPoolBytes = std::size_t{1} << 60;

// Of the KV pool at start: clearing all of a large one would be most of the time to start.
constexpr std::size_t kPopulatedPoolBytes = std::size_t{512} << 20;

}  // namespace

LlamaModel::LlamaModel(const LlamaConfig& config, const kernels::KernelTable& table,
                       const LlamaOptions& options)
    : config_(config),
      table_(table),
      long_slice_table_(options.long_slice_table),
      long_slice_rows_(options.long_slice_rows),
      own_pool_(options.workers == nullptr
                    ? std::make_unique<kernels::WorkerPool>(options.threads)
                    : nullptr),
      pool_(options.workers == nullptr ? *own_pool_ : *options.workers) {
  kv_layout_.type = table.numerics == kernels::Numerics::Float32 ? kernels::KvType::F32
                                                                 : options.kv_type;
  kv_layout_.layers = config.layers;
  kv_layout_.kv_heads = config.kv_heads;
  kv_layout_.head_dim = config.head_dim;
}

tl::expected<std::unique_ptr<LlamaModel>, LoadError> LlamaModel::load(const GgufFile& file,
                                                                      const LlamaOptions& options) {
  const auto config = read_llama_config(file);
  if (!config) return tl::unexpected(config.error());
  std::unique_ptr<LlamaModel> model(new LlamaModel(
      *config, kernels::kernel_table(options.level, options.numerics), options));
  auto weights = LlamaWeights::load(file, *config, model->pool_, options.progress,
                                    options.memory_bytes);
  if (!weights) return tl::unexpected(weights.error());
  model->weights_ = std::move(*weights);
  return model;
}

std::size_t LlamaModel::vocab_size() const { return static_cast<std::size_t>(config_.vocab); }

std::size_t LlamaModel::context_length() const {
  return static_cast<std::size_t>(config_.context);
}

std::size_t LlamaModel::kv_block_bytes() const { return kv_layout_.block_bytes(); }

std::size_t LlamaModel::workspace_bytes() const {
  return workspace_ ? workspace_->memory.bytes() : 0;
}

bool LlamaModel::reserve(std::size_t kv_blocks, std::size_t max_step_tokens,
                         std::size_t max_logits_rows) {
  assert(!workspace_ && "reserve() is called once");
  assert(kv_blocks > 0 && max_step_tokens > 0 && "an engine computes at least one token");
  constexpr std::size_t kMaxInt = std::numeric_limits<int>::max();
  if (max_step_tokens > kMaxInt / 1024 || kv_blocks > kMaxPoolBytes / kv_block_bytes() ||
      kv_blocks * static_cast<std::size_t>(config_.kv_heads) > kMaxInt) {
    return false;
  }
  kv_layout_.block_count = kv_blocks;
  auto pool = HugePages::allocate(kv_layout_.pool_bytes());
  // No sequence is longer than the pool, so a small pool needs no tables for the whole context.
  const std::size_t positions = std::min(
      context_length(), kv_blocks * static_cast<std::size_t>(kernels::kKvBlockTokens));
  const int part_chunks =
      pool_.threads() == 1 ? 0 : kernels::attention_chunks(static_cast<int>(positions));
  auto workspace = StepWorkspace::allocate(config_, max_step_tokens, pool_.threads(),
                                           long_slice_table_ != nullptr, part_chunks);
  auto rope = RopeTable::build(positions, config_.rotary_dim, config_.rope_base,
                               config_.rope_position_scale, weights_.rope_factors);
  if (!pool || !workspace || !rope || !workspace->memory.populate(pool_)) return false;
  // The blocks of low numbers are taken first; those of a large pool may never be.
  const auto layers = static_cast<std::size_t>(config_.layers);
  const std::size_t layer_bytes = kv_layout_.pool_bytes() / layers;
  const std::size_t front_bytes = std::min(layer_bytes, kPopulatedPoolBytes / layers);
  if (!pool->populate_fronts(pool_, layer_bytes, front_bytes)) return false;
  kv_pool_ = std::move(*pool);
  workspace_ = std::move(*workspace);
  rows_.reserve(max_step_tokens);
  max_logits_rows_ = max_logits_rows;
  rope_ = std::move(*rope);
  return true;
}

bool LlamaModel::forward(std::span<const StepSlice> slices, std::span<float> logits,
                         StepWatch* watch) {
  assert(workspace_ && "reserve() comes before forward()");
  if (slices.empty()) return true;
  rows_.assign(slices, long_slice_table_ == nullptr ? StepRows::kNoLongSlices : long_slice_rows_);
  for (const StepRow& row : rows_.rows()) {
    assert(row.token < vocab_size() && "token ids are below the vocabulary size");
    assert(row.position < rope_.positions() && "positions are below the context length");
    assert(row.block < kv_layout_.block_count && "block ids are below the number of blocks");
  }
  const std::size_t logits_rows = rows_.logits_rows().size();
  assert(logits_rows <= max_logits_rows_ && "at most max_logits_rows rows want logits");
  assert(logits.size() >= logits_rows * vocab_size() && "a row of logits for each wanted one");

  const LlamaStep step{config_,
                       weights_,
                       table_,
                       long_slice_table_ == nullptr ? table_ : *long_slice_table_,
                       pool_,
                       rope_,
                       kv_layout_,
                       kv_pool_.data(),
                       *workspace_,
                       rows_,
                       probe_};
  embed_rows(step);
  if (probe_) {
    probe_("embedding", 0, workspace_->residual, static_cast<int>(rows_.rows().size()),
           config_.hidden);
  }
  for (int layer = 0; layer < config_.layers; ++layer) {
    run_layer(step, layer);
    if (watch != nullptr && !watch->is_wanted()) return false;
  }
  if (logits_rows > 0) compute_logits(step, static_cast<int>(logits_rows), logits.data());
  return true;
}

void LlamaModel::copy_block(kernels::BlockId from, kernels::BlockId to) {
  assert(from < kv_layout_.block_count && to < kv_layout_.block_count &&
         "block ids are below the number of blocks");
  const std::size_t bytes =
      kv_layout_.head_block_bytes() * static_cast<std::size_t>(kv_layout_.kv_heads);
  for (int layer = 0; layer < config_.layers; ++layer) {
    std::memcpy(kv_pool_.data() + kv_layout_.offset(layer, to, 0),
                kv_pool_.data() + kv_layout_.offset(layer, from, 0), bytes);
  }
}

void LlamaModel::set_probe(LadderProbe probe) { probe_ = std::move(probe); }

}  // namespace turnstile::engine
