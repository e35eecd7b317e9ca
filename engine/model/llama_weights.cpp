#include "engine/model/llama_weights.h"

#include <cmath>
#include <string>

namespace turnstile::engine {

namespace {

// The order of the tensors of one layer in the list of needs.
enum LayerTensor : std::size_t { AttnNorm, Q, K, V, O, FfnNorm, Gate, Up, Down, kLayerTensors };

// The tensors behind the layers.
enum TailTensor : std::size_t { OutputNorm, RopeFreqs, Embedding, Head };

std::vector<TensorNeed> tensor_needs(const LlamaConfig& config) {
  std::vector<TensorNeed> needs;
  const auto vector = [&](std::string name, int length, bool optional = false) {
    needs.push_back({.name = std::move(name), .rows = 1, .cols = length, .vector = true,
                     .optional = optional});
  };
  const auto matrix = [&](std::string name, int rows, int cols, bool optional = false) {
    needs.push_back({.name = std::move(name), .rows = rows, .cols = cols, .vector = false,
                     .optional = optional});
  };
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    vector(prefix + "attn_norm.weight", config.hidden);
    matrix(prefix + "attn_q.weight", config.q_width(), config.hidden);
    matrix(prefix + "attn_k.weight", config.kv_width(), config.hidden);
    matrix(prefix + "attn_v.weight", config.kv_width(), config.hidden);
    matrix(prefix + "attn_output.weight", config.hidden, config.q_width());
    vector(prefix + "ffn_norm.weight", config.hidden);
    matrix(prefix + "ffn_gate.weight", config.feed_forward, config.hidden);
    matrix(prefix + "ffn_up.weight", config.feed_forward, config.hidden);
    matrix(prefix + "ffn_down.weight", config.hidden, config.feed_forward);
  }
  vector("output_norm.weight", config.hidden);
  vector("rope_freqs.weight", config.rotary_dim / 2, true);
  matrix("token_embd.weight", config.vocab, config.hidden);
  matrix("output.weight", config.vocab, config.hidden, true);
  return needs;
}

}  // namespace

tl::expected<std::size_t, LoadError> LlamaWeights::needed_bytes(const GgufFile& file,
                                                                const LlamaConfig& config) {
  return Weights::needed_bytes(file, tensor_needs(config));
}

tl::expected<LlamaWeights, LoadError> LlamaWeights::load(const GgufFile& file,
                                                         const LlamaConfig& config,
                                                         kernels::WorkerPool& pool,
                                                         const LoadProgress& progress,
                                                         std::optional<std::size_t> memory_bytes) {
  const std::vector<TensorNeed> needs = tensor_needs(config);
  auto tensors = Weights::load(file, needs, pool, progress, memory_bytes);
  if (!tensors) return tl::unexpected(tensors.error());

  LlamaWeights weights;
  weights.tensors = std::move(*tensors);
  const Weights& all = weights.tensors;
  weights.layers.reserve(static_cast<std::size_t>(config.layers));
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(config.layers); ++layer) {
    const std::size_t first = layer * kLayerTensors;
    weights.layers.push_back({.attn_norm = all.vector(first + AttnNorm),
                              .q = all.matrix(first + Q),
                              .k = all.matrix(first + K),
                              .v = all.matrix(first + V),
                              .o = all.matrix(first + O),
                              .ffn_norm = all.vector(first + FfnNorm),
                              .gate = all.matrix(first + Gate),
                              .up = all.matrix(first + Up),
                              .down = all.matrix(first + Down)});
  }
  const std::size_t tail = static_cast<std::size_t>(config.layers) * kLayerTensors;
  weights.output_norm = all.vector(tail + OutputNorm);
  weights.rope_factors = all.vector(tail + RopeFreqs);
  weights.embedding = all.matrix(tail + Embedding);
  weights.head = all.present(tail + Head) ? all.matrix(tail + Head) : weights.embedding;

  for (const float factor : weights.rope_factors) {
    if (!(std::isfinite(factor) && factor > 0.0F)) {
      return tl::unexpected(
          LoadError{"tensor rope_freqs.weight", "holds a factor that is not a positive number"});
    }
  }
  return weights;
}

}  // namespace turnstile::engine
