// serving_bench.cpp: what scheduling, cache and speculation give on a real model, no gateway.
//
//   TURNSTILE_TEST_MODEL=FILE.gguf serving_bench [ROUNDS] [MEASURE] [STREAMS]
//                             one JSON line for each measurement; all, or one; texts of at most so
//                             many streams (32)
//
//   gap      four streams decode while a prompt of 1,900 tokens is read: the longest step then,
//            with and without a token gap, and the time to the prompt's first token
//   shared   eight requests that come together and share 1,024 of 1,040 tokens: tokens computed
//   ngram    tokens/s of one stream with n-gram speculation and without, in alternating order, for
//            a text that repeats itself and for a free one; and of 32 streams
//   draft    the same with a draft model, if TURNSTILE_BENCH_DRAFT names its file
//
// Threads: TURNSTILE_BENCH_THREADS (2). Figures of a busy machine are worth nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/loader/load_model.h"

namespace turnstile {
namespace {

using engine::TokenId;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

engine::LoadedModel load(const char* path, const engine::LoadOptions& options) {
  auto loaded = engine::load_model(path, options);
  if (!loaded) {
    std::fprintf(stderr, "%s: %s\n", path, loaded.error().what.c_str());
    std::exit(1);
  }
  return std::move(*loaded);
}

// An engine with a clock: tells it the duration of each step.
class Server {
 public:
  explicit Server(const engine::SpeculationLimits& speculation, const char* draft_path = nullptr) {
    const char* path = std::getenv("TURNSTILE_TEST_MODEL");
    const char* threads = std::getenv("TURNSTILE_BENCH_THREADS");
    auto loaded = load(path == nullptr ? "" : path,
                       {.threads = threads == nullptr ? 2 : std::atoi(threads)});
    std::unique_ptr<engine::Model> draft;
    if (draft_path != nullptr) {
      draft = std::move(load(draft_path, {.workers = loaded.model->workers()}).model);
    }
    engine::Limits limits;
    limits.kv_cache_blocks = 640;
    limits.speculation = speculation;
    limits.speculation.draft_kv_blocks = 160;
    tokenizer = loaded.tokenizer;
    auto created = engine::Engine::create(std::move(loaded.model), tokenizer, limits,
                                          std::move(draft));
    if (!created) {
      std::fprintf(stderr, "%s\n", created.error().c_str());
      std::exit(1);
    }
    engine_ = std::move(*created);
  }

  void add(engine::Request request) {
    request.id = next_id_++;
    engine_->add(std::move(request));
  }
  bool has_work() const { return engine_->has_work(); }

  double step() {
    out.clear();
    const auto begin = Clock::now();
    engine_->step(out);
    const double duration_ms = ms_since(begin);
    engine_->observe_step(duration_ms);
    rows += out.stats.rows;
    drafted += out.stats.draft_tokens;
    accepted += out.stats.accepted_tokens;
    for (const auto& event : out.events) {
      tokens += event.kind == engine::EventKind::Token ? 1 : 0;
    }
    return duration_ms;
  }
  void reset_counts() { rows = tokens = drafted = accepted = 0; }

  std::shared_ptr<const engine::Tokenizer> tokenizer;
  engine::StepOutput out;
  std::uint64_t rows = 0;
  std::uint64_t tokens = 0;
  std::uint64_t drafted = 0;
  std::uint64_t accepted = 0;

 private:
  std::unique_ptr<engine::Engine> engine_;
  engine::RequestId next_id_ = 1;
};

engine::Request request_of(std::vector<TokenId> prompt, std::uint32_t max_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.stop.max_tokens = max_tokens;
  request.stop.ignore_eos = true;
  request.sampling.temperature = 0.8F;
  request.sampling.top_k = 40;
  request.sampling.seed = 11;
  return request;
}

std::vector<TokenId> numbers(std::size_t count, TokenId seed) {
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>((seed * 7919 + i * 104'729) % 40'000 + 500);
  }
  return ids;
}

void measure_gap(Server& server, int round, float gap_ms) {
  const auto salt = static_cast<TokenId>(round * 10 + (gap_ms > 0 ? 5 : 0));
  for (TokenId s = 0; s < 4; ++s) {
    auto stream = request_of(numbers(64, 100 + salt * 10 + s), 200);
    stream.token_gap_ms = gap_ms;
    server.add(std::move(stream));
  }
  for (int i = 0; i < 20; ++i) server.step();
  server.add(request_of(numbers(1'900, 7'000 + salt), 1));
  const auto begin = Clock::now();
  double longest_ms = 0.0;
  std::uint32_t steps = 0;
  for (bool done = false; !done && server.has_work();) {
    longest_ms = std::max(longest_ms, server.step());
    ++steps;
    for (const auto& event : server.out.events) {
      done = done || (event.kind == engine::EventKind::Finished &&
                      event.finish == engine::FinishReason::Length);
    }
  }
  std::printf("{\"measure\":\"gap\",\"round\":%d,\"token_gap_ms\":%.0f,\"longest_step_ms\":%.1f,"
              "\"steps\":%u,\"first_token_ms\":%.0f}\n",
              round, static_cast<double>(gap_ms), longest_ms, steps, ms_since(begin));
  while (server.has_work()) server.step();
}

void measure_shared(Server& server, int round) {
  server.reset_counts();
  for (TokenId r = 0; r < 8; ++r) {
    auto prompt = numbers(1'024, 9'000 + static_cast<TokenId>(round));
    const auto own = numbers(16, 9'500 + r);
    prompt.insert(prompt.end(), own.begin(), own.end());
    server.add(request_of(std::move(prompt), 8));
  }
  const auto begin = Clock::now();
  while (server.has_work()) server.step();
  std::printf("{\"measure\":\"shared\",\"round\":%d,\"ms\":%.0f,\"rows\":%llu,"
              "\"share_of_prompts\":%.3f}\n",
              round, ms_since(begin), static_cast<unsigned long long>(server.rows),
              static_cast<double>(server.rows - 8 * 7) / (8 * 1'040));
}

void measure_text(Server& server, const char* measure, int round, const char* text,
                  const char* prompt, const char* speculation, float temperature,
                  std::uint32_t streams) {
  server.reset_counts();
  std::vector<TokenId> ids;
  server.tokenizer->encode(prompt, engine::ParseSpecial::No, ids);
  for (std::uint32_t s = 0; s < streams; ++s) {
    auto request = request_of(ids, 256);
    request.sampling.temperature = temperature;
    request.sampling.seed = static_cast<std::uint64_t>(round) * 100 + s;
    server.add(std::move(request));
  }
  server.step();  // the prompt
  const std::uint64_t first = server.tokens;
  const auto begin = Clock::now();
  while (server.has_work()) server.step();
  std::printf("{\"measure\":\"%s\",\"round\":%d,\"text\":\"%s\",\"temperature\":%.1f,"
              "\"streams\":%u,\"speculation\":\"%s\",\"tokens_per_s\":%.1f,\"drafted\":%llu,\"accepted\":%llu}\n",
              measure, round, text, static_cast<double>(temperature), streams, speculation,
              1e3 * static_cast<double>(server.tokens - first) / ms_since(begin),
              static_cast<unsigned long long>(server.drafted),
              static_cast<unsigned long long>(server.accepted));
}

constexpr const char* kRepetitive =
    "red, green, blue, black, white, red, green, blue, black, white, red, green, blue, black, white, "
    "red, green, blue, black, white, red, green, blue, black, white, red, green, blue, black, white,";
constexpr const char* kFree = "The fisherman went out to sea early in the morning, and";

// Both servers on the same texts, who begins alternating.
void measure_speculation(Server& plain, Server& guessing, const char* measure, int round,
                         std::uint32_t most_streams) {
  for (const bool first : {true, false}) {
    const bool guesses = first == (round % 2 == 0);
    Server& server = guesses ? guessing : plain;
    const char* name = guesses ? measure : "off";
    measure_text(server, measure, round, "repetitive", kRepetitive, name, 0.0F, 1);
    measure_text(server, measure, round, "free", kFree, name, 0.8F, 1);
    measure_text(server, measure, round, "free", kFree, name, 0.0F, 1);
    for (const std::uint32_t streams : {4U, 32U}) {
      if (streams > most_streams) break;
      measure_text(server, measure, round, "free", kFree, name, 0.8F, streams);
    }
  }
}

}  // namespace
}  // namespace turnstile

int main(int argc, char** argv) {
  using namespace turnstile;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  const std::string_view wanted = argc > 2 ? argv[2] : "";
  const auto most_streams = static_cast<std::uint32_t>(argc > 3 ? std::atoi(argv[3]) : 32);
  const char* draft_path = std::getenv("TURNSTILE_BENCH_DRAFT");
  const auto measures = [&](std::string_view name) { return wanted.empty() || wanted == name; };
  const bool drafts = measures("draft") && draft_path != nullptr;
  Server plain({});
  std::optional<Server> ngram;
  if (measures("ngram")) {
    ngram.emplace(engine::SpeculationLimits{
        .num_speculative_tokens = 8, .prompt_lookup_min = 2, .prompt_lookup_max = 5});
  }
  std::optional<Server> draft;
  if (drafts) {
    draft.emplace(
        engine::SpeculationLimits{.num_speculative_tokens = 6,
                                  .method = engine::SpeculationMethod::DraftModel},
        draft_path);
  }
  for (int round = 0; round < rounds; ++round) {
    if (measures("gap")) {
      measure_gap(plain, round, 0.0F);
      measure_gap(plain, round, 150.0F);
    }
    if (measures("shared")) measure_shared(plain, round);
    if (ngram) measure_speculation(plain, *ngram, "ngram", round, most_streams);
    if (draft) measure_speculation(plain, *draft, "draft", round, most_streams);
    std::fflush(stdout);
  }
  return 0;
}
