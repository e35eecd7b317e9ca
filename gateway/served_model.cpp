#include "gateway/served_model.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <sched.h>
#include <unistd.h>

#include "engine/kv_pool_size.h"
#include "engine/memory_text.h"
#include "gateway/api/generation_request.h"
#include "gateway/config/speculative_config.h"
#include "gateway/draft_model.h"
#include "gateway/log.h"
#include "gateway/memory_left.h"
#include "gateway/vanishing_file.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

constexpr std::size_t kBlockTokens = 16;  // positions of a KV block; the engine asserts the same

// Cores that this process may use.
int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

engine::LoadProgress progress_on(std::ostream& err) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [&err, shown = -1](std::uint64_t done, std::uint64_t total) mutable {
    const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
    if (percent == shown) return;
    shown = percent;
    err << "\rloading the model: " << percent << " %" << (percent == 100 ? "\n" : "")
        << std::flush;
  };
}

}  // namespace

std::string model_name(const ModelConfig& config) {
  return config.name.empty() ? config.path.stem().string() : config.name;
}

tl::expected<engine::Limits, std::string> engine_limits(const ModelConfig& config,
                                                        std::size_t kv_block_bytes,
                                                        std::size_t context_length,
                                                        std::optional<std::size_t> left_bytes) {
  const auto blocks =
      engine::kv_pool_blocks({.written_bytes = config.kv_cache_memory_bytes,
                              .left_bytes = left_bytes,
                              .block_bytes = kv_block_bytes,
                              .max_num_seqs = config.max_num_seqs,
                              .max_tokens = config.max_model_len.value_or(context_length)});
  if (!blocks) return tl::unexpected(blocks.error());
  engine::Limits limits;
  limits.kv_cache_blocks = *blocks;
  limits.max_model_len = config.max_model_len.value_or(static_cast<std::uint32_t>(
      std::min(context_length, limits.kv_cache_blocks * kBlockTokens)));
  limits.max_num_seqs = config.max_num_seqs;
  limits.max_num_batched_tokens = config.max_num_batched_tokens;
  limits.enable_prefix_caching = config.enable_prefix_caching;
  limits.enable_chunked_prefill = config.enable_chunked_prefill;
  const auto speculation = parse_speculative_config(config.speculative_config);
  assert(speculation && "the configuration was checked");
  limits.speculation = speculation->limits;
  if (limits.speculation.method == engine::SpeculationMethod::DraftModel) {
    limits.speculation.draft_kv_blocks = draft_kv_blocks(limits);
  }
  return limits;
}

std::optional<std::size_t> most_engine_requests(const engine::Limits& engine,
                                                const LimitsConfig& limits) {
  if (limits.max_connections == 0) return std::nullopt;
  const std::size_t slots = engine.max_num_seqs;
  return limits.max_connections * std::min(kMaxPrompts, slots) + slots;
}

tl::expected<ServedModel, std::string> serve_loaded_model(const ModelConfig& config,
                                                          engine::LoadedModel loaded,
                                                          std::optional<engine::LoadedModel> draft,
                                                          std::optional<std::size_t> left_bytes) {
  ServedModel served;
  served.name = model_name(config);
  served.tokenizer = std::move(loaded.tokenizer);
  served.chat_template = std::move(loaded.chat_template);
  auto limits = engine_limits(config, kv_block_bytes_of_both(*loaded.model, draft),
                              loaded.model->context_length(), left_bytes);
  if (!limits) return tl::unexpected(std::move(limits.error()));
  served.limits = std::move(*limits);
  if (draft) {
    served.draft_model = draft_model_text(config, *draft, served.limits);
  }
  auto created = engine::Engine::create(std::move(loaded.model), served.tokenizer, served.limits,
                                        draft ? std::move(draft->model) : nullptr);
  if (!created) return tl::unexpected(std::move(created.error()));
  served.engine = std::move(*created);
  return served;
}

tl::expected<ServedModel, std::string> load_served_model(const ModelConfig& config,
                                                         std::ostream& err) {
  const std::string path = config.path.string();
  const VanishingFile watched(path);
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : usable_cores();
  const std::optional<std::size_t> memory = memory_left_bytes();
  auto loaded =
      engine::load_model(path, {.threads = threads,
                                .progress = progress_on(err),
                                .kernels = config.kernels,
                                .numerics = config.numerics,
                                .kv_cache_dtype = config.kv_cache_dtype,
                                .memory_bytes = memory});
  if (!loaded) {
    return tl::unexpected(policy::plain_text(path) + ": " + loaded.error().where + ": " +
                          loaded.error().what);
  }
  if (!loaded->chat_template) {
    log_warning(path + ": chat is not possible with this file: " + loaded->no_template_reason);
  }
  if (!loaded->numerics_remark.empty()) log_info(path + ": " + loaded->numerics_remark);
  const std::string arithmetic = loaded->instruction_set + ", numerics " + loaded->numerics;
  auto draft = load_draft_model(config, *loaded, memory);
  if (!draft) return tl::unexpected(std::move(draft.error()));
  const std::string cache = loaded->kv_cache_dtype + " KV cache";
  const std::size_t weight_bytes = loaded->weight_bytes + (*draft ? (*draft)->weight_bytes : 0);
  const auto left =
      memory ? std::optional(*memory - std::min(*memory, weight_bytes)) : std::nullopt;
  const std::size_t block_bytes = kv_block_bytes_of_both(*loaded->model, *draft);
  auto served = serve_loaded_model(config, std::move(*loaded), std::move(*draft), left);
  if (!served) return tl::unexpected(path + ": " + served.error());
  log_info("model " + served->name + ": " + std::to_string(served->limits.max_model_len) +
           " tokens of context, " + cache + " of " +
           engine::memory_text(served->limits.kv_cache_blocks * block_bytes) + " (" +
           std::to_string(served->limits.kv_cache_blocks) + " blocks), " +
           std::to_string(threads) + " threads, " + arithmetic);
  if (!served->draft_model.empty()) log_info(served->draft_model);
  return served;
}

}  // namespace turnstile::gateway
