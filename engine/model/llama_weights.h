// llama_weights.h: the tensors of a `llama` file by their role.
//
// Execution order in the arena: embedding rows are read first but a tied head shares them, so the
// embedding lies next to the head, at the end; the layers lie in order before it.
//
//   tensor of the file            rows                cols
//   token_embd.weight             vocab               hidden
//   blk.N.attn_norm.weight                            hidden
//   blk.N.attn_q.weight           q_heads * head_dim  hidden     rows of a head in rotary pairs
//   blk.N.attn_k.weight           kv_heads * head_dim hidden       (2i, 2i+1)
//   blk.N.attn_v.weight           kv_heads * head_dim hidden
//   blk.N.attn_output.weight      hidden              q_heads * head_dim
//   blk.N.ffn_norm.weight                             hidden
//   blk.N.ffn_gate.weight, ffn_up feed_forward        hidden
//   blk.N.ffn_down.weight         hidden              feed_forward
//   output_norm.weight                                hidden
//   output.weight                 vocab               hidden     absent: the embedding (tied)
//   rope_freqs.weight                                 rotary_dim/2, optional: divides frequencies
//
// Ownership: LlamaWeights owns everything; the views inside stay valid when it is moved.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <tl/expected.hpp>

#include "engine/loader/weights.h"
#include "engine/model/llama_config.h"
#include "kernels/panel.h"

namespace turnstile::engine {

struct LlamaLayerWeights {
  std::span<const float> attn_norm;
  kernels::PanelMatrix q, k, v, o;
  std::span<const float> ffn_norm;
  kernels::PanelMatrix gate, up, down;
};

struct LlamaWeights {
  Weights tensors;
  std::vector<LlamaLayerWeights> layers;
  std::span<const float> output_norm;
  kernels::PanelMatrix embedding;
  kernels::PanelMatrix head;  // the embedding's panels when tied
  std::span<const float> rope_factors;  // empty when the file has none

  // Of memory, after the checks of load().
  static tl::expected<std::size_t, LoadError> needed_bytes(const GgufFile& file,
                                                           const LlamaConfig& config);

  static tl::expected<LlamaWeights, LoadError> load(const GgufFile& file,
                                                    const LlamaConfig& config,
                                                    kernels::WorkerPool& pool,
                                                    const LoadProgress& progress,
                                                    std::optional<std::size_t> memory_bytes = {});
};

}  // namespace turnstile::engine
