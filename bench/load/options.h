// options.h: the command line of turnstile-load.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/schedule.h"

namespace turnstile::load {

enum class Api {
  Completions,  // POST /v1/completions
  Chat,         // POST /v1/chat/completions
  Llama,        // POST /completion, llama-server's own route
};

struct Options {
  std::string host;
  std::string port;
  Api api = Api::Completions;
  std::string model;
  std::string key;
  std::string traffic_class;  // X-Turnstile-Class
  std::vector<std::string> headers;       // further ones, each "Name: value"
  std::optional<std::uint64_t> priority;  // `priority` in the body, which some gateways read

  // Load. Without a rate it is a closed loop: each stream sends its next request when the last
  // one has ended. With a rate it is open: requests are due at times fixed before the run.
  std::uint32_t streams = 1;  // connections open at the same time, in either loop
  std::optional<double> rate_per_s;
  Arrival arrival = Arrival::Poisson;
  std::uint64_t requests = 1;
  std::uint64_t warmup_requests = 0;  // sent before, in a closed loop, and not counted
  std::chrono::milliseconds timeout{120'000};
  // Clients that leave: each request is given up at a time drawn from [first, second] after it was
  // sent, whatever has arrived.
  std::optional<std::pair<std::chrono::milliseconds, std::chrono::milliseconds>> leave_after;
  std::chrono::milliseconds pause_after_refusal{0};  // the stream stays silent for this long

  // What is asked for.
  std::optional<std::string> prompt_text;  // instead of token ids; chat always sends text
  bool words = false;                      // random words instead of token ids
  std::uint32_t prompt_tokens = 64;
  std::uint32_t shared_prompt_tokens = 0;  // the first ones, equal in all requests
  std::uint32_t token_low = 1000;          // random ids in [low, high)
  std::uint32_t token_high = 40000;
  std::uint32_t max_tokens = 96;
  double temperature = 0.8;
  std::uint32_t top_k = 40;
  double top_p = 0.95;
  double min_p = 0.05;
  bool ignore_eos = false;
  bool stream = true;
  std::uint32_t choices = 1;  // `n`
  std::uint64_t seed = 1;

  std::string report_file;  // the summary as JSON; empty: standard output only
  std::string records_file; // one JSON object a request
};

// Returns an exit code instead when there is nothing to run (--help, wrong usage, no key file).
struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;
};
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace turnstile::load
