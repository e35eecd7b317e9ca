#include "gateway/api/generation_request.h"

#include "gateway/api/json_body.h"
#include "gateway/api/request_fields.h"

namespace turnstile::gateway {

struct RequestParser::State {
  explicit State(const JsonLimits& json_limits) : limits(json_limits), body(json_limits) {}

  JsonLimits limits;
  JsonBody body;
};

RequestParser::RequestParser(const JsonLimits& limits) : state_(std::make_unique<State>(limits)) {}

RequestParser::~RequestParser() = default;

const JsonLimits& RequestParser::limits() const { return state_->limits; }

tl::expected<GenerationRequest, ApiError> RequestParser::parse(Api api, std::string_view body,
                                                               const ModelFacts& facts) {
  auto document = state_->body.parse(body);
  if (!document) return tl::unexpected(document.error());
  RequestDraft draft{state_->limits, facts, {}, false, false, false, {}, {}, {}, {}, 0};
  draft.request.api = api;
  for (const auto field : *document) {
    if (auto read = read_field(draft, field.key, field.value); !read) {
      return tl::unexpected(read.error());
    }
  }
  return finish_draft(std::move(draft));
}

namespace {

// The body of a token route: `model` is read here, every other field that is not null by `read`.
template <typename Request, typename Read>
tl::expected<void, ApiError> read_token_fields(JsonBody& json, std::string_view body,
                                               Request& request, const Read& read) {
  const auto document = json.parse(body);
  if (!document) return tl::unexpected(document.error());
  for (const auto field : *document) {
    if (field.value.is_null()) continue;
    if (field.key != "model") {
      if (auto done = read(field.key, field.value); !done) return done;
      continue;
    }
    const auto text = json_field::string(field.value, "model");
    if (!text) return tl::unexpected(text.error());
    request.model = *text;
  }
  return {};
}

}  // namespace

tl::expected<TokenizeRequest, ApiError> RequestParser::parse_tokenize(std::string_view body) {
  using Done = tl::expected<void, ApiError>;
  TokenizeRequest request;
  bool has_input = false;
  const auto read = [&](std::string_view key, json_field::Element value) -> Done {
    if (key == "prompt") {
      auto text = json_field::string(value, "prompt");
      if (!text) return tl::unexpected(text.error());
      if (text->size() > state_->limits.max_prompt_bytes) {
        return json_field::invalid("prompt", "must have at most " +
                                                 std::to_string(state_->limits.max_prompt_bytes) +
                                                 " bytes");
      }
      request.input = std::string(*text);
      has_input = true;
    } else if (key == "messages") {
      auto messages = read_messages(value, state_->limits);
      if (!messages) return tl::unexpected(messages.error());
      request.input = std::move(*messages);
      has_input = true;
    } else if (key == "add_generation_prompt" || key == "return_token_strs") {
      auto set = json_field::boolean(value, key);
      if (!set) return tl::unexpected(set.error());
      (key == "return_token_strs" ? request.return_token_strs : request.add_generation_prompt) =
          *set;
    }
    return {};
  };
  if (auto done = read_token_fields(state_->body, body, request, read); !done) {
    return tl::unexpected(done.error());
  }
  if (!has_input) {
    return tl::unexpected(make_error(ApiCode::MissingRequiredParameter,
                                     "prompt or messages is required.", "prompt"));
  }
  return request;
}

tl::expected<DetokenizeRequest, ApiError> RequestParser::parse_detokenize(
    std::string_view body, const ModelFacts& facts) {
  using Done = tl::expected<void, ApiError>;
  DetokenizeRequest request;
  bool has_tokens = false;
  const auto read = [&](std::string_view key, json_field::Element value) -> Done {
    if (key != "tokens") return {};
    auto ids = read_token_ids(value, "tokens", facts);
    if (!ids) return tl::unexpected(ids.error());
    // Two bytes of a body may stand for a hundred of an answer: no more than a request holds.
    if (ids->size() > facts.max_model_len) {
      return json_field::invalid("tokens", "must hold at most " +
                                               std::to_string(facts.max_model_len) +
                                               " ids, the model's context");
    }
    request.tokens = std::move(*ids);
    has_tokens = true;
    return {};
  };
  if (auto done = read_token_fields(state_->body, body, request, read); !done) {
    return tl::unexpected(done.error());
  }
  if (!has_tokens) {
    return tl::unexpected(
        make_error(ApiCode::MissingRequiredParameter, "tokens is required.", "tokens"));
  }
  return request;
}

}  // namespace turnstile::gateway
