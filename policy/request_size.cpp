#include "policy/request_size.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace turnstile::policy {
namespace {

Refusal never(RefusalCode code, std::string param, std::string meter, std::string scope,
              std::int64_t limit, std::int64_t asked) {
  Refusal refusal;
  refusal.code = code;
  refusal.param = std::move(param);
  refusal.meter = std::move(meter);
  refusal.scope = std::move(scope);
  refusal.limit = limit;
  refusal.asked = asked;
  return refusal;
}

std::string limit_name(std::string_view key, const std::string& scope) {
  std::string name(key);
  name += '/';
  name += scope;
  return name;
}

}  // namespace

tl::expected<RequestSize, Refusal> size_request(const Resolved& resolved, const TokenFacts& tokens,
                                                const EngineFacts& engine) {
  assert(tokens.prompt_tokens >= 0 && tokens.choices >= 1 && "the JSON edge checks ranges");
  using enum RefusalCode;
  if (tokens.choices > engine.sequence_slots) {
    return tl::unexpected(never(InvalidValue, "n", "sequence_slots", "engine",
                                engine.sequence_slots, tokens.choices));
  }
  if (tokens.max_tokens && *tokens.max_tokens < 1) {
    return tl::unexpected(never(InvalidValue, "max_tokens", "", "", 1, *tokens.max_tokens));
  }
  const auto& max_output = resolved.max_output;
  if (tokens.max_tokens && max_output && *tokens.max_tokens > max_output->tokens) {
    const auto& [limit, scope] = *max_output;
    return tl::unexpected(never(InvalidValue, "max_tokens", limit_name("max_output_tokens", scope),
                                scope, limit, *tokens.max_tokens));
  }

  // Every choice may in the worst case need blocks of its own, so a small cache bounds the length
  // of one sequence before the model's context does.
  const std::int64_t in_cache = engine.kv_blocks / tokens.choices * engine.block_tokens;
  const bool cache_is_smaller = in_cache < engine.max_model_len;
  const std::int64_t context = cache_is_smaller ? in_cache : engine.max_model_len;
  const std::string context_meter = cache_is_smaller ? "kv_blocks" : "max_model_len";
  const std::int64_t longest =
      tokens.longest_prompt_tokens > 0 ? tokens.longest_prompt_tokens : tokens.prompt_tokens;
  if (longest >= context) {
    return tl::unexpected(
        never(ContextLengthExceeded, "prompt", context_meter, "engine", context, longest + 1));
  }
  if (tokens.max_tokens && *tokens.max_tokens > context - longest) {
    // The client's number may be as large as 64 bits; what was asked is said as far as that goes.
    const std::int64_t asked = longest + std::min(*tokens.max_tokens, INT64_MAX - longest);
    return tl::unexpected(never(ContextLengthExceeded, "max_tokens", context_meter, "engine",
                                context, asked));
  }
  if (resolved.max_input && tokens.prompt_tokens > resolved.max_input->tokens) {
    const auto& [limit, scope] = *resolved.max_input;
    return tl::unexpected(never(InputTooLong, "prompt", limit_name("max_input_tokens", scope),
                                scope, limit, tokens.prompt_tokens));
  }

  RequestSize size;
  size.prompt_tokens = tokens.prompt_tokens;
  size.choices = tokens.choices;
  if (tokens.max_tokens) {
    size.max_tokens = *tokens.max_tokens;
  } else {
    size.max_tokens = context - longest;
    for (const auto limit : {resolved.default_max_tokens, tokens.route_default_max_tokens}) {
      if (limit) size.max_tokens = std::min(size.max_tokens, *limit);
    }
    if (max_output) size.max_tokens = std::min(size.max_tokens, max_output->tokens);
  }
  const std::int64_t positions = longest + size.max_tokens;
  size.kv_blocks = size.choices * ((positions + engine.block_tokens - 1) / engine.block_tokens);
  return size;
}

}  // namespace turnstile::policy
