// limits.h: the engine's settings and bounds, under vLLM's names where vLLM has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::engine {

enum class SpeculationMethod : std::uint8_t { Ngram, DraftModel };

// Speculative decoding (drafter.h); the names are those of vLLM's --speculative-config.
struct SpeculationLimits {
  std::uint32_t num_speculative_tokens = 0;  // most guesses of a sequence in a step; 0: off
  std::uint32_t prompt_lookup_min = 5;       // n-gram: tokens of the suffix that is looked up
  std::uint32_t prompt_lookup_max = 5;
  SpeculationMethod method = SpeculationMethod::Ngram;
  std::size_t draft_kv_blocks = 0;           // draft model: blocks of its own KV cache
};

struct Limits {
  std::uint32_t max_model_len = 2048;          // tokens of prompt and completion of one sequence
  std::uint32_t max_num_seqs = 32;             // sequences that hold blocks at one time
  std::uint32_t max_num_batched_tokens = 512;  // rows of one step: decodes and prompt chunks
  std::size_t kv_cache_blocks = 0;             // blocks of kernels::kKvBlockTokens positions
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;  // false: a prompt enters a step whole, or waits
  SpeculationLimits speculation;
};

inline constexpr std::uint32_t kMaxSpeculativeTokens = 16;  // `num_speculative_tokens`
inline constexpr std::uint32_t kMaxDraftRows = 32;          // guesses of all sequences in a step
inline constexpr std::uint32_t kMaxLookupTokens = 32;       // `prompt_lookup_max`
inline constexpr std::uint32_t kMaxDraftSequences = 16;     // that a draft model reads at one time
inline constexpr std::uint32_t kMaxDraftPassRows = 128;     // tokens of one pass of a draft model
inline constexpr std::size_t kBlocksPerDraftBlock = 4;      // model's KV blocks, draft model's
inline constexpr std::uint32_t kMaxChoices = 8;             // `n`
inline constexpr std::uint32_t kMaxTopLogprobs = 20;        // `top_logprobs`
inline constexpr std::size_t kMaxStopStrings = 4;           // `stop`
inline constexpr std::size_t kMaxStopStringBytes = 256;     // each of them
inline constexpr std::size_t kMaxLogitBias = 300;           // entries of `logit_bias`

}  // namespace turnstile::engine
