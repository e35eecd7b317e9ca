// logprobs_text.h: log-probabilities in the two shapes of OpenAI's API.
//
// Chat: {"content":[{token,logprob,bytes,top_logprobs:[..]}],"refusal":null}. Completions: four
// parallel arrays tokens, token_logprobs, top_logprobs, text_offset.
// `token` is text: a token that is part of a character shows U+FFFD, `bytes` holds the truth.
//
// Thread: any; pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gateway/api/generation_response.h"

namespace turnstile::gateway {

// `as_ids`: tokens are written "token_id:N", as vLLM's return_tokens_as_token_ids asks.
void append_chat_logprobs(std::string& out, std::span<const TokenLogprob> logprobs, bool as_ids);

// `text_offset` is the length of the choice's text so far in bytes, and is moved on.
void append_completion_logprobs(std::string& out, std::span<const TokenLogprob> logprobs,
                                bool as_ids, std::size_t& text_offset);

}  // namespace turnstile::gateway
