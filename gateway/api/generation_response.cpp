#include "gateway/api/generation_response.h"

#include <cassert>

#include "gateway/api/json_text.h"
#include "gateway/api/logprobs_text.h"

namespace turnstile::gateway {
namespace {

std::string head(std::string_view opening, std::string_view id_prefix, std::string_view request_id,
                 std::string_view object, std::int64_t created_unix_s, std::string_view model) {
  std::string out(opening);
  out += R"({"id":)";
  append_json_string(out, std::string(id_prefix) + std::string(request_id));
  out += R"(,"object":")";
  out += object;
  out += R"(","created":)";
  append_json_int(out, created_unix_s);
  out += R"(,"model":)";
  append_json_string(out, model);
  out += R"(,"choices":[)";
  return out;
}

void append_usage(std::string& out, const Usage& usage) {
  out += R"("usage":{"prompt_tokens":)";
  append_json_uint(out, usage.prompt_tokens);
  out += R"(,"completion_tokens":)";
  append_json_uint(out, usage.completion_tokens);
  out += R"(,"total_tokens":)";
  append_json_uint(out, usage.prompt_tokens + usage.completion_tokens);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_json_uint(out, usage.cached_tokens);
  out += "}}";
}

void append_explained(std::string& out, const Explained& explained) {
  const auto milliseconds = [&](std::string_view name, double value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_json_decimal(out, value);
  };
  out += R"("turnstile":{"class":)";
  append_json_string(out, explained.service_class);
  out += R"(,"policy":)";
  append_json_string(out, explained.policy);
  milliseconds("queue_ms", explained.queue_ms);
  milliseconds("prefill_ms", explained.prefill_ms);
  milliseconds("decode_ms", explained.decode_ms);
  milliseconds("ttft_ms", explained.ttft_ms);
  out += R"(,"cached_tokens":)";
  append_json_uint(out, explained.cached_tokens);
  out += R"(,"pauses":)";
  append_json_uint(out, explained.pauses);
  if (!explained.end_code.empty()) {
    out += R"(,"end_code":)";
    append_json_string(out, explained.end_code);
  }
  if (!explained.ticket.empty()) {
    out += R"(,"ticket":)";
    append_json_string(out, explained.ticket);
  }
  out += '}';
}

void append_end(std::string& out, const ChoiceEnd& end) {
  out += R"("finish_reason":")";
  out += finish_reason_text(end.reason);
  out += R"(","stop_reason":)";
  if (end.stop_string) {
    append_json_string(out, *end.stop_string);
  } else if (end.stop_token) {
    append_json_uint(out, *end.stop_token);
  } else {
    out += "null";
  }
}

void append_ids(std::string& out, std::string_view name, std::span<const engine::TokenId> ids) {
  out += ",\"";
  out += name;
  out += "\":[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_uint(out, ids[i]);
  }
  out += ']';
}

}  // namespace

std::string_view finish_reason_text(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::StopToken:
    case engine::FinishReason::StopString: return "stop";
    case engine::FinishReason::Length: return "length";
    case engine::FinishReason::Cancelled: return "abort";
    case engine::FinishReason::Fault: return "error";
  }
  assert(false && "the switch covers every reason");
  return {};
}

ResponseFormat::ResponseFormat(const GenerationRequest& request, std::string_view request_id,
                               std::string_view model, std::int64_t created_unix_s)
    : api_(request.api),
      want_logprobs_(request.logprobs),
      tokens_as_ids_(request.return_tokens_as_token_ids),
      want_token_ids_(request.return_token_ids),
      want_usage_(request.include_usage) {
  const bool chat = api_ == Api::Chat;
  const std::string_view prefix = chat ? "chatcmpl-" : "cmpl-";
  chunk_head_ = head("data: ", prefix, request_id,
                     chat ? "chat.completion.chunk" : "text_completion", created_unix_s, model);
  body_head_ = head("", prefix, request_id, chat ? "chat.completion" : "text_completion",
                    created_unix_s, model);
}

void ResponseFormat::open_choice(std::string& out, std::uint32_t choice) const {
  out += R"({"index":)";
  append_json_uint(out, choice);
}

void ResponseFormat::close_chunk(std::string& out, const Usage* running_usage) const {
  out += "}]";
  if (running_usage != nullptr) {
    out += ',';
    append_usage(out, *running_usage);
  } else if (want_usage_) {
    out += R"(,"usage":null)";
  }
  out += "}\n\n";
}

void ResponseFormat::append_logprobs(std::string& out, std::uint32_t choice,
                                     std::span<const TokenLogprob> logprobs) {
  out += R"(,"logprobs":)";
  if (!want_logprobs_) {
    out += "null";
  } else if (api_ == Api::Chat) {
    append_chat_logprobs(out, logprobs, tokens_as_ids_);
  } else {
    if (text_offset_.size() <= choice) text_offset_.resize(choice + 1);
    append_completion_logprobs(out, logprobs, tokens_as_ids_, text_offset_[choice]);
  }
}

void ResponseFormat::content_chunk(std::string& out, std::uint32_t choice, std::string_view text,
                                   const ChunkExtras& extras) {
  out += chunk_head_;
  open_choice(out, choice);
  out += api_ == Api::Chat ? R"(,"delta":{"content":)" : R"(,"text":)";
  append_json_string(out, text);
  if (api_ == Api::Chat) out += '}';
  append_logprobs(out, choice, extras.logprobs);
  if (want_token_ids_) {
    append_ids(out, "token_ids", extras.token_ids);
    if (!extras.prompt_ids.empty()) append_ids(out, "prompt_token_ids", extras.prompt_ids);
  }
  out += R"(,"finish_reason":null)";
  close_chunk(out, extras.running_usage);
}

void ResponseFormat::first_chunk(std::string& out, std::uint32_t choice, std::string_view text,
                                 const ChunkExtras& extras) {
  if (api_ == Api::Chat) {
    out += chunk_head_;
    open_choice(out, choice);
    out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)";
    close_chunk(out, extras.running_usage);
  }
  chunk(out, choice, text, extras);
}

void ResponseFormat::chunk(std::string& out, std::uint32_t choice, std::string_view text,
                           const ChunkExtras& extras) {
  const bool has_extras = !extras.logprobs.empty() || !extras.token_ids.empty();
  if (text.empty() && !has_extras) return;
  content_chunk(out, choice, text, extras);
}

void ResponseFormat::finish_chunk(std::string& out, std::uint32_t choice, const ChoiceEnd& end,
                                  const Usage* running_usage) {
  out += chunk_head_;
  open_choice(out, choice);
  out += api_ == Api::Chat ? R"(,"delta":{},"logprobs":null,)" : R"(,"text":"","logprobs":null,)";
  append_end(out, end);
  close_chunk(out, running_usage);
}

void ResponseFormat::usage_chunk(std::string& out, const Usage& usage,
                                 const Explained& explained) {
  out += chunk_head_;
  out += "],";
  append_usage(out, usage);
  out += ',';
  append_explained(out, explained);
  out += "}\n\n";
}

void ResponseFormat::body(std::string& out, std::span<const ChoiceResult> choices,
                          const Usage& usage, const Explained& explained) {
  out += body_head_;
  for (std::uint32_t index = 0; index < choices.size(); ++index) {
    const ChoiceResult& choice = choices[index];
    if (index > 0) out += ',';
    open_choice(out, index);
    out += api_ == Api::Chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)";
    append_json_string(out, choice.text);
    if (api_ == Api::Chat) out += R"(,"refusal":null})";
    append_logprobs(out, index, choice.logprobs);
    if (want_token_ids_) {
      append_ids(out, "token_ids", choice.token_ids);
      append_ids(out, "prompt_token_ids", choice.prompt_ids);
    }
    out += ',';
    append_end(out, choice.end);
    out += '}';
  }
  out += "],";
  append_usage(out, usage);
  out += ',';
  append_explained(out, explained);
  out += '}';
}

void append_error_event(std::string& out, const ApiError& error, std::string_view request_id) {
  out += "data: ";
  append_error_body(out, error, request_id);
  out += "\n\n";
}

}  // namespace turnstile::gateway
