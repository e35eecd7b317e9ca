// prompt_tokens.h: the input of a request as token ids.
//
// Chat goes through the model's template; text of the client never becomes a special token there.
// The prompt of completions is wholly the caller's, so special tokens in it are parsed.
//
// A text that cannot fit, whatever its tokens are, is refused before it is tokenized: no text of n
// bytes has fewer than n / longest_token_bytes() tokens. Others are tokenized only until they have
// twice the tokens that fit: up to there policy can say how many were asked for.
//
// Thread: I/O for short texts, one of the text pool's for long ones (text_work.h); a value.
// Cost:   linear in the text, which the limits bound.
// Tests:  tests/gateway/prompt_tokens_test.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include <tl/expected.hpp>

#include "engine/template/chat_template.h"
#include "engine/token_id.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/api/api_error.h"
#include "gateway/clock.h"
#include "gateway/api/generation_request.h"

namespace turnstile::gateway {

using TokenIds = std::vector<engine::TokenId>;

struct PromptEncoder {
  const engine::Tokenizer& tokenizer;
  const engine::ChatTemplate* chat_template;  // null: the model file has none
  const ModelFacts& model;
  WallTime now;  // what strftime_now() of a template shows

  // One list for chat, one for each prompt of completions; none is empty.
  tl::expected<std::vector<TokenIds>, ApiError> encode(const GenerationRequest& request) const;
  tl::expected<TokenIds, ApiError> encode(const TokenizeRequest& request) const;

 private:
  tl::expected<TokenIds, ApiError> encode_chat(const std::vector<InputMessage>& messages,
                                               bool add_generation_prompt, std::size_t most) const;
  tl::expected<TokenIds, ApiError> encode_text(const std::string& text, std::size_t most) const;
  tl::expected<void, ApiError> check_length(std::size_t bytes, std::string_view param) const;
};

// Bytes of text that may have to be tokenized, a template may show names too; 0 for token ids.
std::size_t text_bytes(const GenerationRequest& request);

}  // namespace turnstile::gateway
