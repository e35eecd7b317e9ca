// generation_response.h: answers and stream chunks as bytes.
//
// A stream of one choice, in the order the spine asks for it:
//
//   chunk(role, first text) .. chunk(text) .. finish(reason) [usage] done
//
// The role chunk precedes the first content chunk of each choice in the same write. Text is whole
// characters: the engine holds back the rest. A chunk's fixed part is built once per request.
//
// Thread: I/O; one ResponseFormat per request, which appends to a caller's buffer.
// Cost: one append per chunk besides the escaping of its text.
// Source: OpenAI's chat completions and completions API; vLLM's extra fields.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/step_output.h"
#include "engine/token_id.h"
#include "gateway/api/api_error.h"
#include "gateway/api/generation_request.h"

namespace turnstile::gateway {

struct Alternative {
  engine::TokenId token = 0;
  std::string bytes;  // the token's raw bytes
  float logprob = 0.0F;
};

struct TokenLogprob {
  engine::TokenId token = 0;
  std::string bytes;
  float logprob = 0.0F;
  std::vector<Alternative> top;  // best first
};

// How a choice ended, for the body and for the last chunk.
struct ChoiceEnd {
  engine::FinishReason reason = engine::FinishReason::StopToken;
  // vLLM's stop_reason: the stop string, or a token id of stop_token_ids; absent for the ordinary
  // end of generation.
  std::optional<std::string> stop_string;
  std::optional<engine::TokenId> stop_token;
};

std::string_view finish_reason_text(engine::FinishReason reason);  // "stop", ..., "error"

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

// The `turnstile` object: how the request was treated. Times in milliseconds.
struct Explained {
  std::string_view service_class;
  std::string_view policy;
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  double ttft_ms = 0;
  std::uint64_t cached_tokens = 0;
  std::uint32_t pauses = 0;
  std::string_view end_code;  // empty: policy did not end it
  std::string_view ticket;    // what became of the ticket it showed; empty: it showed none
};

// A finished choice of an answer that is not streamed.
struct ChoiceResult {
  std::string text;
  ChoiceEnd end;
  std::vector<TokenLogprob> logprobs;
  std::vector<engine::TokenId> token_ids;         // filled when asked for
  std::span<const engine::TokenId> prompt_ids;    // of this choice's prompt
};

// What a chunk may carry besides its text.
struct ChunkExtras {
  std::span<const TokenLogprob> logprobs;
  std::span<const engine::TokenId> token_ids;     // only when the request asked for ids
  std::span<const engine::TokenId> prompt_ids;    // on a choice's first chunk, likewise
  const Usage* running_usage = nullptr;           // continuous_usage_stats
};

class ResponseFormat {
 public:
  // `request_id` gives the answer's id ("chatcmpl-..." or "cmpl-..."); `model` is echoed as asked.
  ResponseFormat(const GenerationRequest& request, std::string_view request_id,
                 std::string_view model, std::int64_t created_unix_s);

  // One complete SSE event each, "data: {...}\n\n". first_chunk puts the role chunk before the
  // content chunk (Completions: no role). Empty text with no extras appends nothing but the role.
  void first_chunk(std::string& out, std::uint32_t choice, std::string_view text,
                   const ChunkExtras& extras);
  void chunk(std::string& out, std::uint32_t choice, std::string_view text,
             const ChunkExtras& extras);
  void finish_chunk(std::string& out, std::uint32_t choice, const ChoiceEnd& end,
                    const Usage* running_usage = nullptr);
  void usage_chunk(std::string& out, const Usage& usage, const Explained& explained);

  // The whole body of an answer that is not streamed; choices in index order.
  void body(std::string& out, std::span<const ChoiceResult> choices, const Usage& usage,
            const Explained& explained);

 private:
  void open_choice(std::string& out, std::uint32_t choice) const;
  void close_chunk(std::string& out, const Usage* running_usage) const;
  void content_chunk(std::string& out, std::uint32_t choice, std::string_view text,
                     const ChunkExtras& extras);
  void append_logprobs(std::string& out, std::uint32_t choice,
                       std::span<const TokenLogprob> logprobs);

  Api api_;
  bool want_logprobs_;
  bool tokens_as_ids_;
  bool want_token_ids_;
  bool want_usage_;
  std::string chunk_head_;  // data: {"id":..,"object":..,"created":..,"model":..,"choices":[
  std::string body_head_;   // the same of a whole answer
  std::vector<std::size_t> text_offset_;  // completions logprobs: bytes of text so far, a choice
};

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseWait = ": wait\n\n";

// An error after the headers were sent: "data: {"error":{...}}\n\n".
void append_error_event(std::string& out, const ApiError& error, std::string_view request_id);

void append_tokenize_body(std::string& out, std::span<const engine::TokenId> tokens,
                          std::size_t max_model_len,
                          std::span<const std::string> token_strings, bool with_strings);
void append_detokenize_body(std::string& out, std::string_view text);

struct ModelCard {
  std::string_view id;
  std::int64_t created_unix_s = 0;
  std::string_view root;  // the engine's name
  std::size_t max_model_len = 0;
  std::optional<std::int64_t> max_input_tokens;   // limits of the caller
  std::optional<std::int64_t> max_output_tokens;
};
void append_model(std::string& out, const ModelCard& card);
void append_model_list(std::string& out, std::span<const ModelCard> cards);

}  // namespace turnstile::gateway
