#include "tests/support/toy_requests.h"

#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {

engine::Limits roomy_limits() {
  engine::Limits limits;
  limits.max_model_len = 512;
  limits.max_num_seqs = 8;
  limits.max_num_batched_tokens = 64;
  limits.kv_cache_blocks = 300;
  return limits;
}

engine::Request greedy_request(engine::RequestId id, std::string_view prompt,
                               std::uint32_t max_tokens) {
  engine::Request made;
  made.id = id;
  made.prompt = toy_tokens(prompt);
  made.stop.max_tokens = max_tokens;
  made.sampling.temperature = 0.0F;
  return made;
}

std::string letters(std::size_t count, std::uint32_t seed) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    text += static_cast<char>('a' + (seed >> 24) % 26);
  }
  return text;
}

engine::Request only_token(engine::TokenId token, std::uint32_t max_tokens) {
  engine::Request made = greedy_request(1, "abc", max_tokens);
  made.sampling.logit_bias = {{token, 1000.0F}};
  return made;
}

}  // namespace turnstile::tests
