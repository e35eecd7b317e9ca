#include "bench/load/request_bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "bench/load/json_writer.h"
#include "bench/load/random_stream.h"

namespace turnstile::load {
namespace {

// The shared part is drawn from a stream of its own.
constexpr std::uint64_t kSharedStream = ~std::uint64_t{0};

// Where text is needed, words from a small list stand for the tokens, about one token a word.
constexpr std::array<std::string_view, 16> kWords{
    "time", "people", "water", "word", "house", "world", "school", "night",
    "light", "story", "paper", "music", "river", "mother", "tree", "money"};

void write_token_ids(JsonWriter& json, const Options& o, std::uint64_t number) {
  json.begin_array();
  RandomStream shared(o.seed, kSharedStream);
  RandomStream own(o.seed, number);
  for (std::uint32_t i = 0; i < o.prompt_tokens; ++i) {
    RandomStream& source = i < o.shared_prompt_tokens ? shared : own;
    json.value(std::uint64_t{source.next_in(o.token_low, o.token_high)});
  }
  json.end_array();
}

std::string prompt_words(const Options& o, std::uint64_t number) {
  if (o.prompt_text) return *o.prompt_text;
  RandomStream shared(o.seed, kSharedStream);
  RandomStream own(o.seed, number);
  std::string text;
  for (std::uint32_t i = 0; i < o.prompt_tokens; ++i) {
    RandomStream& source = i < o.shared_prompt_tokens ? shared : own;
    if (i > 0) text += ' ';
    text += kWords[source.next() % kWords.size()];
  }
  return text;
}

void write_prompt(JsonWriter& json, const Options& o, std::uint64_t number) {
  if (o.api == Api::Chat) {
    json.key("messages").begin_array().begin_object();
    json.key("role").value("user");
    json.key("content").value(prompt_words(o, number));
    json.end_object().end_array();
  } else if (o.prompt_text) {
    json.key("prompt").value(*o.prompt_text);
  } else if (o.words) {
    json.key("prompt").value(prompt_words(o, number));
  } else {
    json.key("prompt");
    write_token_ids(json, o, number);
  }
}

std::string body_json(const Options& o, std::uint64_t number) {
  JsonWriter json;
  json.begin_object();
  if (!o.model.empty()) json.key("model").value(o.model);
  write_prompt(json, o, number);
  json.key(o.api == Api::Llama ? "n_predict" : "max_tokens").value(std::uint64_t{o.max_tokens});
  json.key("temperature").value(o.temperature);
  if (o.top_k != 0) json.key("top_k").value(std::uint64_t{o.top_k});
  json.key("top_p").value(o.top_p);
  json.key("min_p").value(o.min_p);
  json.key("seed").value(o.seed + number);
  if (o.priority) json.key("priority").value(*o.priority);
  if (o.choices > 1) json.key("n").value(std::uint64_t{o.choices});
  if (o.ignore_eos) json.key("ignore_eos").value(true);
  json.key("stream").value(o.stream);
  if (o.api == Api::Llama) {
    // Cold runs on both sides: its slots would otherwise keep the last prompt.
    json.key("cache_prompt").value(o.shared_prompt_tokens > 0);
  } else if (o.stream) {
    json.key("stream_options").begin_object().key("include_usage").value(true).end_object();
  }
  json.end_object();
  return json.take();
}

}  // namespace

std::string request_bytes(const Options& options, std::uint64_t number) {
  const std::string body = body_json(options, number);
  std::string bytes = "POST ";
  switch (options.api) {
    case Api::Completions: bytes += "/v1/completions"; break;
    case Api::Chat: bytes += "/v1/chat/completions"; break;
    case Api::Llama: bytes += "/completion"; break;
  }
  bytes += " HTTP/1.1\r\nHost: " + options.host + ":" + options.port +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
  if (!options.key.empty()) bytes += "\r\nAuthorization: Bearer " + options.key;
  if (!options.traffic_class.empty()) bytes += "\r\nX-Turnstile-Class: " + options.traffic_class;
  for (const std::string& header : options.headers) bytes += "\r\n" + header;
  bytes += "\r\n\r\n";
  bytes += body;
  return bytes;
}

}  // namespace turnstile::load
