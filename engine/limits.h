// limits.h: the engine's settings and bounds, under vLLM's names where vLLM has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::engine {

struct Limits {
  std::uint32_t max_model_len = 2048;          // tokens of prompt and completion of one sequence
  std::uint32_t max_num_seqs = 32;             // sequences that hold blocks at one time
  std::uint32_t max_num_batched_tokens = 512;  // rows of one step: decodes and prompt chunks
  std::size_t kv_cache_blocks = 0;             // blocks of kernels::kKvBlockTokens positions
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;  // false: a prompt enters a step whole, or waits
};

inline constexpr std::uint32_t kMaxChoices = 8;             // `n`
inline constexpr std::uint32_t kMaxTopLogprobs = 20;        // `top_logprobs`
inline constexpr std::size_t kMaxStopStrings = 4;           // `stop`
inline constexpr std::size_t kMaxStopStringBytes = 256;     // each of them
inline constexpr std::size_t kMaxLogitBias = 300;           // entries of `logit_bias`

}  // namespace turnstile::engine
