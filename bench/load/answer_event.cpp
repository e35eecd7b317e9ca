#include "bench/load/answer_event.h"

#include <simdjson.h>

namespace turnstile::load {
namespace {

using simdjson::dom::element;

std::optional<std::uint64_t> number_at(element value, std::string_view pointer) {
  std::uint64_t number = 0;
  if (value.at_pointer(pointer).get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::optional<double> decimal_at(element value, std::string_view pointer) {
  double number = 0;
  if (value.at_pointer(pointer).get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::optional<std::string_view> text_at(element value, std::string_view pointer) {
  std::string_view text;
  if (value.at_pointer(pointer).get(text) != simdjson::SUCCESS) return std::nullopt;
  return text;
}

void read_openai(element object, AnswerEvent& event) {
  for (const char* where : {"/choices/0/delta/content", "/choices/0/message/content",
                            "/choices/0/text"}) {
    if (const auto text = text_at(object, where)) event.text = *text;
  }
  if (const auto reason = text_at(object, "/choices/0/finish_reason")) {
    event.finish_reason = *reason;
  }
  event.prompt_tokens = number_at(object, "/usage/prompt_tokens");
  event.completion_tokens = number_at(object, "/usage/completion_tokens");
  event.cached_tokens = number_at(object, "/usage/prompt_tokens_details/cached_tokens");
  event.queue_ms = decimal_at(object, "/turnstile/queue_ms");
  event.server_ttft_ms = decimal_at(object, "/turnstile/ttft_ms");
  event.pauses = number_at(object, "/turnstile/pauses");
  if (const auto code = text_at(object, "/turnstile/end_code")) event.end_code = *code;
}

// llama-server's /completion: `content` in each event, counts in the one with `stop: true`.
void read_llama(element object, AnswerEvent& event) {
  if (const auto text = text_at(object, "/content")) event.text = *text;
  bool stop = false;
  if (object.at_pointer("/stop").get(stop) != simdjson::SUCCESS || !stop) return;
  event.finish_reason = text_at(object, "/stop_type").value_or("stop");
  event.prompt_tokens = number_at(object, "/tokens_evaluated");
  event.completion_tokens = number_at(object, "/tokens_predicted");
  event.cached_tokens = number_at(object, "/timings/cache_n");
}

void read_error(element object, AnswerEvent& event) {
  element error;
  if (object.at_pointer("/error").get(error) != simdjson::SUCCESS || error.is_null()) return;
  event.error_code = text_at(error, "/code").value_or(text_at(error, "/type").value_or("error"));
}

}  // namespace

struct AnswerReader::Parser {
  simdjson::dom::parser json;
};

AnswerReader::AnswerReader() : parser_(std::make_unique<Parser>()) {}
AnswerReader::~AnswerReader() = default;

std::optional<AnswerEvent> AnswerReader::read(std::string_view json) {
  element object;
  if (parser_->json.parse(json.data(), json.size()).get(object) != simdjson::SUCCESS ||
      !object.is_object()) {
    return std::nullopt;
  }
  AnswerEvent event;
  element choices;
  const bool is_openai = object.at_pointer("/choices").get(choices) == simdjson::SUCCESS ||
                         object.at_pointer("/usage").get(choices) == simdjson::SUCCESS;
  if (is_openai) {
    read_openai(object, event);
  } else {
    read_llama(object, event);
  }
  read_error(object, event);
  event.has_text = !event.text.empty();
  return event;
}

}  // namespace turnstile::load
