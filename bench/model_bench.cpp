// model_bench.cpp: steps of the real model, and where their time goes.
//
//   prefill/N        one prompt of N tokens in chunks of 512; tokens/s
//   decode/S         S sequences, one token each, over 160 positions of context; tokens/s
//   part/...         the kernels of one step alone, at the step's sizes, on one thread: what a step
//                    of that kind consists of
//
// Usage: TURNSTILE_TEST_MODEL=FILE model_bench [--benchmark_filter=decode]
// TURNSTILE_BENCH_THREADS (2) and TURNSTILE_BENCH_LEVEL (the best one) choose the configuration.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/model/llama.h"

namespace {

using turnstile::engine::GgufFile;
using turnstile::engine::LlamaModel;
using turnstile::engine::LlamaOptions;
using turnstile::engine::StepSlice;
using turnstile::engine::TokenId;
namespace kernels = turnstile::kernels;

constexpr std::size_t kMaxSequences = 32;
constexpr std::size_t kStepTokens = 512;
constexpr std::size_t kSequenceBlocks = 96;  // 1,536 positions
constexpr std::size_t kDecodeContext = 160;

int threads() {
  const char* text = std::getenv("TURNSTILE_BENCH_THREADS");
  return text == nullptr ? 2 : std::atoi(text);
}

kernels::Level level() {
  const char* text = std::getenv("TURNSTILE_BENCH_LEVEL");
  if (text == nullptr) return kernels::best_level();
  return kernels::parse_level(text).value_or(kernels::best_level());
}

LlamaModel& model() {
  static const std::unique_ptr<LlamaModel> loaded = [] {
    const char* path = std::getenv("TURNSTILE_TEST_MODEL");
    const auto file = GgufFile::open(path == nullptr ? "" : path);
    if (!file) {
      std::fprintf(stderr, "TURNSTILE_TEST_MODEL: %s: %s\n", file.error().where.c_str(),
                   file.error().what.c_str());
      std::exit(1);
    }
    LlamaOptions options;
    options.level = level();
    options.threads = threads();
    auto result = LlamaModel::load(*file, options);
    if (!result || !(*result)->reserve(kMaxSequences * kSequenceBlocks, kStepTokens,
                                       kMaxSequences)) {
      std::fprintf(stderr, "the model could not be loaded\n");
      std::exit(1);
    }
    return std::move(*result);
  }();
  return *loaded;
}

std::vector<TokenId> some_tokens(std::size_t count) {
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(1000 + i * 7919 % 40000);
  return ids;
}

std::vector<kernels::BlockId> blocks_of(std::size_t sequence) {
  std::vector<kernels::BlockId> blocks(kSequenceBlocks);
  std::iota(blocks.begin(), blocks.end(),
            static_cast<kernels::BlockId>(sequence * kSequenceBlocks));
  return blocks;
}

void prefill(std::span<const TokenId> ids, std::span<const kernels::BlockId> blocks,
             std::span<float> logits) {
  for (std::size_t begin = 0; begin < ids.size(); begin += kStepTokens) {
    const std::size_t count = std::min(kStepTokens, ids.size() - begin);
    const StepSlice slice{ids.subspan(begin, count), static_cast<std::uint32_t>(begin), blocks,
                          begin + count == ids.size()};
    model().forward({&slice, 1}, logits);
  }
}

void BM_Prefill(benchmark::State& state) {
  const auto ids = some_tokens(static_cast<std::size_t>(state.range(0)));
  const auto blocks = blocks_of(0);
  std::vector<float> logits(model().vocab_size());
  for (auto _ : state) prefill(ids, blocks, logits);
  state.counters["tokens/s"] = benchmark::Counter(
      static_cast<double>(ids.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Prefill)->Name("prefill")->Arg(512)->Arg(1024)->UseRealTime()->Unit(
    benchmark::kMillisecond);

void BM_Decode(benchmark::State& state) {
  const auto sequences = static_cast<std::size_t>(state.range(0));
  const auto ids = some_tokens(kDecodeContext);
  std::vector<float> logits(sequences * model().vocab_size());
  std::vector<std::vector<kernels::BlockId>> blocks;
  std::vector<StepSlice> slices;
  for (std::size_t s = 0; s < sequences; ++s) blocks.push_back(blocks_of(s));
  for (std::size_t s = 0; s < sequences; ++s) {
    prefill(ids, blocks[s], logits);
    slices.push_back({std::span(ids).first(1), kDecodeContext, blocks[s], true});
  }
  for (auto _ : state) model().forward(slices, logits);
  state.counters["tokens/s"] = benchmark::Counter(
      static_cast<double>(sequences), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Decode)->Name("decode")->Arg(1)->Arg(8)->Arg(32)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
