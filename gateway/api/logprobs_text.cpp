#include "gateway/api/logprobs_text.h"

#include "engine/tokenizer/detokenizer.h"
#include "gateway/api/json_text.h"

namespace turnstile::gateway {
namespace {

void append_token(std::string& out, engine::TokenId token, std::string_view bytes, bool as_ids) {
  if (as_ids) {
    out += "\"token_id:";
    append_json_uint(out, token);
    out += '"';
    return;
  }
  engine::Detokenizer whole_characters;
  std::string text;
  whole_characters.append(bytes, text);
  whole_characters.flush(text);
  append_json_string(out, text);
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json_uint(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_entry(std::string& out, engine::TokenId token, std::string_view bytes, float logprob,
                  bool as_ids) {
  out += R"({"token":)";
  append_token(out, token, bytes, as_ids);
  out += R"(,"logprob":)";
  append_json_logprob(out, logprob);
  out += R"(,"bytes":)";
  append_bytes(out, bytes);
}

}  // namespace

void append_chat_logprobs(std::string& out, std::span<const TokenLogprob> logprobs, bool as_ids) {
  out += R"({"content":[)";
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprob& entry = logprobs[i];
    if (i > 0) out += ',';
    append_entry(out, entry.token, entry.bytes, entry.logprob, as_ids);
    out += R"(,"top_logprobs":[)";
    for (std::size_t k = 0; k < entry.top.size(); ++k) {
      if (k > 0) out += ',';
      append_entry(out, entry.top[k].token, entry.top[k].bytes, entry.top[k].logprob, as_ids);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
}

void append_completion_logprobs(std::string& out, std::span<const TokenLogprob> logprobs,
                                bool as_ids, std::size_t& text_offset) {
  const auto each = [&](auto append) {
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      if (i > 0) out += ',';
      append(logprobs[i]);
    }
  };
  out += R"({"tokens":[)";
  each([&](const TokenLogprob& entry) { append_token(out, entry.token, entry.bytes, as_ids); });
  out += R"(],"token_logprobs":[)";
  each([&](const TokenLogprob& entry) { append_json_logprob(out, entry.logprob); });
  out += R"(],"top_logprobs":[)";
  each([&](const TokenLogprob& entry) {
    out += '{';
    for (std::size_t k = 0; k < entry.top.size(); ++k) {
      if (k > 0) out += ',';
      append_token(out, entry.top[k].token, entry.top[k].bytes, as_ids);
      out += ':';
      append_json_logprob(out, entry.top[k].logprob);
    }
    out += '}';
  });
  out += R"(],"text_offset":[)";
  each([&](const TokenLogprob& entry) {
    append_json_uint(out, text_offset);
    text_offset += entry.bytes.size();
  });
  out += "]}";
}

}  // namespace turnstile::gateway
