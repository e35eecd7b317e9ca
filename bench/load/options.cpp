#include "bench/load/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <vector>

namespace turnstile::load {
namespace {

bool read_url(const std::string& url, Options& options) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return false;
  std::string authority = url.substr(kScheme.size());
  authority = authority.substr(0, authority.find('/'));
  const std::size_t colon = authority.rfind(':');
  options.host = authority.substr(0, colon);
  options.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
  return !options.host.empty() && !options.port.empty();
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& o = parsed.options;
  std::string url = "http://127.0.0.1:8000";
  std::string key_file;
  std::uint64_t timeout_s = 120;
  bool no_stream = false;
  std::vector<std::uint64_t> leave_after_ms;
  std::uint64_t pause_after_refusal_ms = 0;

  CLI::App app{"Drives an OpenAI-compatible server with many streams and measures what they see.",
               "turnstile-load"};
  const std::map<std::string, Api> apis{
      {"completions", Api::Completions}, {"chat", Api::Chat}, {"llama", Api::Llama}};
  const std::map<std::string, Arrival> arrivals{{"poisson", Arrival::Poisson},
                                                {"uniform", Arrival::Uniform}};
  app.add_option("--url", url, "http://HOST:PORT of the server")->capture_default_str();
  app.add_option("--api", o.api, "completions, chat, or llama (llama-server's /completion)")
      ->transform(CLI::CheckedTransformer(apis));
  app.add_option("--model", o.model, "model name in the request; empty: none is sent");
  app.add_option("--key", o.key, "bearer key");
  app.add_option("--key-file", key_file, "file whose first line is the bearer key");
  app.add_option("--class", o.traffic_class, "X-Turnstile-Class");
  app.add_option("--header", o.headers, "'Name: value', sent with each request");
  app.add_option("--priority", o.priority, "'priority' in the body");
  app.add_option("--streams", o.streams, "connections open at the same time")
      ->check(CLI::Range(1, 100'000))->capture_default_str();
  app.add_option("--rate", o.rate_per_s, "open loop: intended requests a second")
      ->check(CLI::PositiveNumber);
  app.add_option("--arrival", o.arrival, "open loop: poisson or uniform")
      ->transform(CLI::CheckedTransformer(arrivals));
  app.add_option("--requests", o.requests, "measured requests in all")
      ->check(CLI::Range(1, 100'000'000))->capture_default_str();
  app.add_option("--warmup-requests", o.warmup_requests, "sent before, not measured")
      ->capture_default_str();
  app.add_option("--timeout-s", timeout_s, "limit of one request")
      ->check(CLI::Range(1, 86'400))->capture_default_str();
  app.add_option("--leave-after-ms", leave_after_ms,
                 "LOW HIGH: each request is given up at a random time in between")
      ->expected(2)->check(CLI::Range(0, 86'400'000));
  app.add_option("--pause-after-refusal-ms", pause_after_refusal_ms,
                 "how long a refused stream stays silent")->capture_default_str();
  app.add_flag("--words", o.words, "a random prompt of words instead of token ids");
  app.add_option("--prompt-text", o.prompt_text, "the prompt, instead of random token ids");
  app.add_option("--prompt-tokens", o.prompt_tokens, "length of a random prompt")
      ->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--shared-prompt-tokens", o.shared_prompt_tokens,
                 "how many of them, from the front, are equal in all requests")
      ->capture_default_str();
  app.add_option("--token-low", o.token_low, "lowest random token id")->capture_default_str();
  app.add_option("--token-high", o.token_high, "one above the highest")->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens, "new tokens a request")->capture_default_str();
  app.add_option("--temperature", o.temperature, "0: greedy")->capture_default_str();
  app.add_option("--top-k", o.top_k, "0: not sent")->capture_default_str();
  app.add_option("--top-p", o.top_p, "nucleus")->capture_default_str();
  app.add_option("--min-p", o.min_p, "least share of the best token")->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_eos, "generate max-tokens whatever the model says");
  app.add_flag("--no-stream", no_stream, "one answer instead of a stream");
  app.add_option("--choices", o.choices, "answers to one prompt (n)")
      ->check(CLI::Range(1, 128))->capture_default_str();
  app.add_option("--seed", o.seed, "of prompts, schedule and sampling")->capture_default_str();
  app.add_option("--report", o.report_file, "write the summary there, as JSON");
  app.add_option("--records", o.records_file, "write one JSON line a request there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }

  o.timeout = std::chrono::seconds(timeout_s);
  o.stream = !no_stream;
  o.pause_after_refusal = std::chrono::milliseconds(pause_after_refusal_ms);
  if (!leave_after_ms.empty()) {
    const auto [low, high] = std::minmax(leave_after_ms[0], leave_after_ms[1]);
    o.leave_after = {std::chrono::milliseconds(low), std::chrono::milliseconds(high)};
  }
  if (!read_url(url, o)) {
    std::cerr << "turnstile-load: --url must be http://HOST:PORT, without TLS.\n";
    parsed.exit_code = 2;
  } else if (o.token_low >= o.token_high || o.shared_prompt_tokens > o.prompt_tokens) {
    std::cerr << "turnstile-load: --token-low must be below --token-high, and "
                 "--shared-prompt-tokens at most --prompt-tokens.\n";
    parsed.exit_code = 2;
  } else if (!key_file.empty() && !std::getline(std::ifstream(key_file) >> std::ws, o.key)) {
    std::cerr << "turnstile-load: cannot read a key from " << key_file
              << "; name a readable file, or pass the key with --key.\n";
    parsed.exit_code = 3;
  }
  return parsed;
}

}  // namespace turnstile::load
