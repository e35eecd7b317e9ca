// generation_request.h: a JSON body becomes a validated value, or an error that names the field.
//
// The one choke point for what clients send: encoding, depth, counts, duplicate keys, types,
// ranges and finiteness are all checked here, in 64 bits, before admission. Behind it nothing
// looks at JSON again. What needs the tokenizer (length in tokens) or the policy (class, limits)
// is checked later.
//
// Ranges: temperature [0,2], top_p (0,1], top_k -1|0|>=1, min_p [0,1], presence and frequency
// penalty [-2,2], repetition_penalty (0,10], n 1..8, stop up to 4 strings of 256 bytes, logit_bias
// up to 300 entries in [-100,100], top_logprobs 0..20, seed any int64 (-1: none).
// A field of a later version is accepted when it has its neutral value (`tools: []`) and refused
// with unsupported_parameter otherwise: never silence where the answer would differ. Unknown names
// are accepted and listed, up to 64.
//
// Thread: I/O. RequestParser keeps its buffers between calls; results own their data.
// Cost: linear in the body; no allocation in proportion to a number inside it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "engine/request.h"
#include "engine/token_id.h"
#include "gateway/api/api_error.h"

namespace turnstile::gateway {

enum class Api : std::uint8_t { Chat, Completions };

struct JsonLimits {
  std::size_t max_depth = 32;
  std::size_t max_keys = 10'000;      // object keys in the whole body
  std::size_t max_messages = 2'048;
  std::size_t max_prompt_bytes = 1 << 20;
};

// What the parser must know of the model.
struct ModelFacts {
  std::size_t vocab_size = 0;
  std::size_t max_model_len = 0;
  // Of all prompts of a request: what the KV cache holds.
  std::size_t max_prompt_tokens = static_cast<std::size_t>(-1);
};

inline constexpr std::size_t kMaxPrompts = 32;      // prompts x n of one completions request
inline constexpr std::size_t kMaxUnknownFields = 64;
// In place of an absent max_tokens of a completions request (OpenAI's API).
inline constexpr std::int64_t kCompletionsDefaultMaxTokens = 16;
inline constexpr std::size_t kMaxStopTokenIds = 128;
inline constexpr std::size_t kMaxCacheSaltBytes = 1'024;

struct InputMessage {
  std::string role;     // system, developer, user, assistant
  std::string content;  // text parts joined by a line feed
  std::optional<std::string> name;
};

using Prompt = std::variant<std::string, std::vector<engine::TokenId>>;

struct GenerationRequest {
  Api api = Api::Chat;
  std::string model;                     // empty: the first one the key may use
  std::vector<InputMessage> messages;    // Chat
  std::vector<Prompt> prompts;           // Completions, 1..kMaxPrompts
  bool add_generation_prompt = true;     // Chat

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;

  std::optional<std::int64_t> max_tokens;     // absent: policy decides
  std::string_view max_tokens_name = "max_tokens";  // the field as it was sent
  std::uint32_t choices = 1;                  // `n`
  engine::SamplingParams sampling;            // seed is meaningful only with has_seed
  bool has_seed = false;
  engine::StopConditions stop;                // max_tokens is filled in after the verdict
  bool skip_special_tokens = true;

  bool logprobs = false;                      // report them; sampling.top_logprobs says how many
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;
  std::optional<std::string> cache_salt;
  std::optional<std::string> service_tier;    // priority, default, flex; auto is absent
  std::vector<std::string> unknown_fields;    // distinct top-level names, for the counter

  // The field that holds the input: "messages" or "prompt".
  std::string_view prompt_name() const { return api == Api::Chat ? "messages" : "prompt"; }
};

struct TokenizeRequest {
  std::string model;
  std::variant<std::string, std::vector<InputMessage>> input;
  bool add_generation_prompt = true;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<engine::TokenId> tokens;
};

class RequestParser {
 public:
  explicit RequestParser(const JsonLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  tl::expected<GenerationRequest, ApiError> parse(Api api, std::string_view body,
                                                  const ModelFacts& facts);
  tl::expected<TokenizeRequest, ApiError> parse_tokenize(std::string_view body);
  tl::expected<DetokenizeRequest, ApiError> parse_detokenize(std::string_view body,
                                                             const ModelFacts& facts);
  const JsonLimits& limits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
