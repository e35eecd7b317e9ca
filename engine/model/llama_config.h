// llama_config.h: the hyperparameters of a `llama` GGUF, read and checked as a whole.
//
// A file is untrusted: every number is bounded, and numbers that must agree (heads and key heads,
// head and rotary size, vocabulary and tokens) are compared here, so that the rest of the model
// only ever sees shapes that fit together. Keys that ask for mathematics this model does not do
// (experts, windows, other rope scalings) are refused by name: computing on would give a wrong
// text without a sign.
//
// Keys, each under "llama.":      default when absent
//   block_count                   required
//   context_length                required
//   embedding_length              required
//   feed_forward_length           required
//   attention.head_count          required
//   attention.head_count_kv       head_count
//   attention.key_length          embedding_length / head_count (head_dim is its own number!)
//   attention.value_length        key_length; must equal it
//   attention.layer_norm_rms_epsilon   required
//   rope.dimension_count          head_dim
//   rope.freq_base                10,000
//   rope.scaling.type, .factor    "none" ("linear" with a factor is the other one known)
//   vocab_size                    rows of token_embd.weight; must equal them
//
// Llama 3 scaling is not a key: the file holds a tensor `rope_freqs.weight` (llama_weights.h).
//
// Errors: LoadError with `where` = "key llama.attention.head_count" or a tensor's name.
// Tests:  tests/engine/llama_config_test.cpp.
#pragma once

#include <cstdint>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"
#include "kernels/kv_block.h"
#include "kernels/panel.h"

namespace turnstile::engine {

struct LlamaLimits {
  static constexpr std::uint64_t kMaxLayers = 1'024;
  static constexpr std::uint64_t kMaxContext = 1'048'576;  // tokens; the rope table grows with it
  // Whatever is multiplied by a matrix: hidden, feed_forward, and all query heads together.
  static constexpr std::uint64_t kMaxWidth = kernels::kMaxColumns;
  static constexpr std::uint64_t kMaxHeads = 1'024;
  static constexpr std::uint64_t kMaxHeadDim = kernels::kMaxInt8HeadDim;
  static constexpr std::uint64_t kMaxVocabulary = 4'194'304;
};

struct LlamaConfig {
  int layers = 0;
  int hidden = 0;
  int q_heads = 0;
  int kv_heads = 0;  // divides q_heads
  int head_dim = 0;  // a multiple of 8
  int feed_forward = 0;
  int vocab = 0;
  int context = 0;  // tokens
  int rotary_dim = 0;  // even, <= head_dim
  float norm_epsilon = 0.0F;
  double rope_base = 0.0;
  double rope_position_scale = 1.0;  // positions are divided by it

  int q_width() const { return q_heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int heads_per_group() const { return q_heads / kv_heads; }

  bool operator==(const LlamaConfig&) const = default;
};

// That the file is of this architecture; read_llama_config() asks it too.
tl::expected<void, LoadError> check_llama_architecture(const GgufFile& file);

tl::expected<LlamaConfig, LoadError> read_llama_config(const GgufFile& file);

}  // namespace turnstile::engine
