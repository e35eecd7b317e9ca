// Answers of the routes that generate nothing: models, tokenize, detokenize.
#include "gateway/api/generation_response.h"
#include "gateway/api/json_text.h"

namespace turnstile::gateway {

void append_tokenize_body(std::string& out, std::span<const engine::TokenId> tokens,
                          std::size_t max_model_len, std::span<const std::string> token_strings,
                          bool with_strings) {
  out += R"({"count":)";
  append_json_uint(out, tokens.size());
  out += R"(,"max_model_len":)";
  append_json_uint(out, max_model_len);
  out += R"(,"tokens":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_json_uint(out, tokens[i]);
  }
  out += R"(],"token_strs":)";
  if (with_strings) {
    out += '[';
    for (std::size_t i = 0; i < token_strings.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, token_strings[i]);
    }
    out += ']';
  } else {
    out += "null";
  }
  out += '}';
}

void append_detokenize_body(std::string& out, std::string_view text) {
  out += R"({"prompt":)";
  append_json_string(out, text);
  out += '}';
}

void append_model(std::string& out, const ModelCard& card) {
  out += R"({"id":)";
  append_json_string(out, card.id);
  out += R"(,"object":"model","created":)";
  append_json_int(out, card.created_unix_s);
  out += R"(,"owned_by":"turnstile","root":)";
  append_json_string(out, card.root);
  out += R"(,"max_model_len":)";
  append_json_uint(out, card.max_model_len);
  if (card.max_input_tokens) {
    out += R"(,"max_input_tokens":)";
    append_json_int(out, *card.max_input_tokens);
  }
  if (card.max_output_tokens) {
    out += R"(,"max_output_tokens":)";
    append_json_int(out, *card.max_output_tokens);
  }
  out += '}';
}

void append_model_list(std::string& out, std::span<const ModelCard> cards) {
  out += R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (i > 0) out += ',';
    append_model(out, cards[i]);
  }
  out += "]}";
}

}  // namespace turnstile::gateway
