#include "gateway/prompt_tokens.h"

#include <chrono>
#include <string>
#include <utility>

#include "engine/template/encode_prompt.h"

namespace turnstile::gateway {
namespace {

engine::CivilTime civil_time(WallTime now) {
  const auto days = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(now - days));
  return {.year = static_cast<int>(date.year()),
          .month = static_cast<int>(static_cast<unsigned>(date.month())),
          .day = static_cast<int>(static_cast<unsigned>(date.day())),
          .hour = static_cast<int>(time.hours().count()),
          .minute = static_cast<int>(time.minutes().count()),
          .second = static_cast<int>(time.seconds().count())};
}

tl::unexpected<ApiError> empty_prompt(std::string_view param) {
  return tl::unexpected(make_error(ApiCode::InvalidValue,
                                   "The prompt must have at least one token.",
                                   std::string(param)));
}

tl::unexpected<ApiError> too_long(std::size_t max_model_len, std::string_view param) {
  return tl::unexpected(make_error(
      ApiCode::ContextLengthExceeded,
      "The text is too long for the model's context of " + std::to_string(max_model_len) +
          " tokens.",
      std::string(param)));
}

}  // namespace

tl::expected<std::vector<TokenIds>, ApiError> PromptEncoder::encode(
    const GenerationRequest& request) const {
  const std::size_t most = 2 * model.max_model_len;
  std::vector<TokenIds> prompts;
  if (request.api == Api::Chat) {
    auto ids = encode_chat(request.messages, request.add_generation_prompt, most);
    if (!ids) return tl::unexpected(std::move(ids.error()));
    prompts.push_back(std::move(*ids));
    if (prompts.back().size() > most) return too_long(model.max_model_len, "messages");
    return prompts;
  }
  std::size_t tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    if (const auto* ids = std::get_if<TokenIds>(&prompt)) {
      prompts.push_back(*ids);
    } else {
      auto encoded = encode_text(std::get<std::string>(prompt), most);
      if (!encoded) return tl::unexpected(std::move(encoded.error()));
      prompts.push_back(std::move(*encoded));
    }
    if (prompts.back().empty()) return empty_prompt("prompt");
    if (prompts.back().size() > most) return too_long(model.max_model_len, "prompt");
    tokens += prompts.back().size();
    if (request.prompts.size() > 1 && tokens > model.max_prompt_tokens) {
      return tl::unexpected(make_error(ApiCode::ContextLengthExceeded,
                                       "The prompts together have more than the " +
                                           std::to_string(model.max_prompt_tokens) +
                                           " tokens that the KV cache holds; send fewer.",
                                       "prompt"));
    }
  }
  return prompts;
}

tl::expected<TokenIds, ApiError> PromptEncoder::encode(const TokenizeRequest& request) const {
  constexpr std::size_t kAll = engine::Tokenizer::kNoLimit;
  if (const auto* text = std::get_if<std::string>(&request.input)) return encode_text(*text, kAll);
  return encode_chat(std::get<std::vector<InputMessage>>(request.input),
                     request.add_generation_prompt, kAll);
}

tl::expected<TokenIds, ApiError> PromptEncoder::encode_chat(
    const std::vector<InputMessage>& messages, bool add_generation_prompt,
    std::size_t most) const {
  if (chat_template == nullptr) {
    return tl::unexpected(make_error(ApiCode::UnsupportedParameter,
                                     "The model has no chat template; use /v1/completions.",
                                     "messages"));
  }
  std::size_t bytes = 0;
  for (const InputMessage& message : messages) bytes += message.content.size();
  if (auto fits = check_length(bytes, "messages"); !fits) {
    return tl::unexpected(std::move(fits.error()));
  }
  std::vector<engine::ChatMessage> chat;
  chat.reserve(messages.size());
  for (const InputMessage& message : messages) {
    chat.push_back({message.role, message.content, message.name});
  }
  const engine::RenderExtras extras{.variables = {}, .now = civil_time(now)};
  const auto rendered = chat_template->render(chat, add_generation_prompt, extras);
  if (!rendered) {
    const std::string why = rendered.error().raised_by_template
                                ? rendered.error().message
                                : "The model's chat template does not accept these messages.";
    return tl::unexpected(make_error(ApiCode::InvalidValue, why, "messages"));
  }
  TokenIds ids;
  engine::encode_prompt(tokenizer, *rendered, ids, most);
  if (ids.empty()) return empty_prompt("messages");
  return ids;
}

tl::expected<TokenIds, ApiError> PromptEncoder::encode_text(const std::string& text,
                                                            std::size_t most) const {
  if (auto fits = check_length(text.size(), "prompt"); !fits) {
    return tl::unexpected(std::move(fits.error()));
  }
  TokenIds ids;
  if (tokenizer.adds_bos() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  tokenizer.encode(text, engine::ParseSpecial::Yes, ids, most);
  return ids;
}

tl::expected<void, ApiError> PromptEncoder::check_length(std::size_t bytes,
                                                         std::string_view param) const {
  if (bytes / tokenizer.longest_token_bytes() < model.max_model_len) return {};
  return too_long(model.max_model_len, param);
}

std::size_t text_bytes(const GenerationRequest& request) {
  std::size_t bytes = 0;
  for (const InputMessage& message : request.messages) {
    bytes += message.content.size() + (message.name ? message.name->size() : 0);
  }
  for (const Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) bytes += text->size();
  }
  return bytes;
}

}  // namespace turnstile::gateway
