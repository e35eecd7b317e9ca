// request_fields.h: one handler for each top-level field of a generating request.
//
// read_field() finds the handler in a table sorted by name. Three kinds of field:
//   read      its value goes into the draft (sampling, stop, stream, ...)
//   neutral   belongs to a later version: accepted with its neutral value, otherwise
//             unsupported_parameter
//   unknown   accepted, its name is listed
// null stands for an absent field and is never handed on.
#pragma once

#include <optional>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/api/generation_request.h"
#include "gateway/api/json_body.h"

namespace turnstile::gateway {

// A request while its fields are read; finish_draft() makes the checks that need several fields.
struct RequestDraft {
  const JsonLimits& limits;
  const ModelFacts& facts;
  GenerationRequest request;
  bool has_messages = false;
  bool has_prompt = false;
  bool has_stream_options = false;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> max_completion_tokens;
  std::optional<std::int64_t> completion_logprobs;  // `logprobs` of completions
  std::optional<std::int64_t> top_logprobs;
  std::size_t prompt_bytes = 0;
};

tl::expected<void, ApiError> read_field(RequestDraft& draft, std::string_view name,
                                        json_field::Element value);

tl::expected<GenerationRequest, ApiError> finish_draft(RequestDraft&& draft);

// `messages` of chat and tokenize requests. Role and content are checked; prompt_bytes counts.
tl::expected<std::vector<InputMessage>, ApiError> read_messages(json_field::Element value,
                                                                const JsonLimits& limits);
// An array of token ids below `vocab_size`.
tl::expected<std::vector<engine::TokenId>, ApiError> read_token_ids(json_field::Element value,
                                                                    std::string_view name,
                                                                    const ModelFacts& facts);

}  // namespace turnstile::gateway
