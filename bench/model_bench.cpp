// model_bench.cpp: steps of the real model, and where their time goes.
//
//   prefill/N        one prompt of N tokens in chunks of 512; tokens/s
//   decode/S         S sequences, one token each, over 160 positions of context; tokens/s
//   depth/D          one sequence, one token, over D positions of context
//   parts/R          one step of R rows (512: a prompt) as its kernels alone on one thread; the
//                    counters are the shares of products, head, attention and row-wise work
//
// Usage: TURNSTILE_TEST_MODEL=FILE model_bench [--benchmark_filter=decode]
// TURNSTILE_BENCH_THREADS (2), TURNSTILE_BENCH_LEVEL (the best one) and TURNSTILE_BENCH_KV (f16 or
// int8; the default) choose the configuration.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/huge_pages.h"
#include "engine/loader/kv_cache_dtype.h"
#include "engine/model/llama.h"
#include "engine/model/llama_weights.h"
#include "engine/model/step_workspace.h"

namespace {

using turnstile::engine::GgufFile;
using turnstile::engine::LlamaConfig;
using turnstile::engine::LlamaModel;
using turnstile::engine::LlamaOptions;
using turnstile::engine::LlamaWeights;
using turnstile::engine::StepSlice;
using turnstile::engine::StepWorkspace;
using turnstile::engine::TokenId;
namespace kernels = turnstile::kernels;

constexpr std::size_t kMaxSequences = 32;
constexpr std::size_t kStepTokens = 512;
constexpr std::size_t kSequenceBlocks = 66;  // 1,056 positions
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

kernels::KvType kv_type() {
  const char* text = std::getenv("TURNSTILE_BENCH_KV");
  return turnstile::engine::choose_kv_type(text == nullptr ? "auto" : text)
      .value_or(turnstile::engine::kDefaultKvType);
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
    options.kv_type = kv_type();
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

// What the context costs does not depend on what is in it, so nothing is read into it first.
void BM_Depth(benchmark::State& state) {
  const auto depth = static_cast<std::uint32_t>(state.range(0));
  std::vector<float> logits(model().vocab_size());
  std::vector<kernels::BlockId> blocks(depth / kernels::kKvBlockTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  const auto ids = some_tokens(1);
  const StepSlice slice{ids, depth, blocks, true};
  for (auto _ : state) model().forward({&slice, 1}, logits);
}
BENCHMARK(BM_Depth)->Name("depth")->Arg(0)->Arg(1024)->Arg(2048)->UseRealTime()->Unit(
    benchmark::kMillisecond);

// The parts of one step on one thread, at the sizes of that step.
class Parts {
 public:
  explicit Parts(int rows)
      : rows_(rows),
        pool_(1),
        table_(kernels::kernel_table(level(), kernels::Numerics::Int8)),
        config_(model().config()),
        weights_(load_weights(pool_)),
        work_(*StepWorkspace::allocate(config_, static_cast<std::size_t>(rows), 1)),
        logits_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.vocab)),
        layer_out_(static_cast<std::size_t>(rows) *
                   static_cast<std::size_t>(config_.feed_forward)) {
    kv_.type = kv_type();
    kv_.layers = 1;
    kv_.kv_heads = config_.kv_heads;
    kv_.head_dim = config_.head_dim;
    kv_.block_count = kMaxSequences * kSequenceBlocks;
    kv_pool_ = std::move(*turnstile::engine::HugePages::allocate(kv_.pool_bytes()));
    kv_pool_.populate(pool_);
    for (const auto* x : {&work_.normed, &work_.attended, &work_.gated}) {
      for (int i = 0; i < rows_ * x->cols; ++i) x->f32[i] = static_cast<float>(i % 17) - 8.0F;
      table_.quantize(*x, 0, rows_);
    }
  }

  void products() {
    for (const auto& layer : weights_.layers) {
      for (const auto* w : {&layer.q, &layer.k, &layer.v, &layer.gate, &layer.up}) {
        product(*w, work_.normed);
      }
      product(layer.o, work_.attended);
      product(layer.down, work_.gated);
    }
  }

  void head() {
    table_.matmul(weights_.head, work_.normed, 0, weights_.head.panel_count(), logits_.data(),
                  static_cast<std::size_t>(config_.vocab), kernels::OutputMode::Store);
  }

  // One new row of each of `rows` sequences, or all rows of one prompt.
  void attention(bool prompt) {
    for (int layer = 0; layer < config_.layers; ++layer) {
      for (int sequence = 0; sequence < (prompt ? 1 : rows_); ++sequence) {
        const auto blocks = blocks_of(static_cast<std::size_t>(sequence));
        kernels::AttentionRows rows;
        rows.q_stride = static_cast<std::size_t>(config_.q_width());
        rows.out_stride = rows.q_stride;
        rows.q = work_.attended.f32 + static_cast<std::size_t>(sequence) * rows.q_stride;
        rows.out = work_.qkv;
        rows.rows = prompt ? rows_ : 1;
        rows.q_heads = config_.q_heads;
        rows.first_position = prompt ? 0 : static_cast<int>(kDecodeContext);
        rows.blocks = blocks.data();
        for (int head = 0; head < config_.kv_heads; ++head) {
          table_.attend(kv_, kv_pool_.data(), rows, head, 0, rows.rows,
                        work_.workers[0].attention);
        }
      }
    }
  }

  // Norms, quantisation and SwiGLU of all layers.
  void row_work() {
    for (const auto& layer : weights_.layers) {
      for (int row = 0; row < rows_; ++row) {
        for (const auto& weight : {layer.attn_norm, layer.ffn_norm}) {
          const std::size_t at = static_cast<std::size_t>(row * config_.hidden);
          table_.rms_norm(work_.residual + at, weight.data(), config_.hidden,
                          config_.norm_epsilon, work_.normed.f32 + at);
          table_.quantize(work_.normed, row, row + 1);
        }
        table_.quantize(work_.attended, row, row + 1);
        float* gated = work_.gated.f32 + static_cast<std::size_t>(row * config_.feed_forward);
        table_.swiglu(layer_out_.data(), gated, config_.feed_forward, gated);
        table_.quantize(work_.gated, row, row + 1);
      }
    }
  }

 private:
  static LlamaWeights load_weights(kernels::WorkerPool& pool) {
    const auto file = GgufFile::open(std::getenv("TURNSTILE_TEST_MODEL"));
    return std::move(*LlamaWeights::load(*file, model().config(), pool, {}));
  }

  void product(const kernels::PanelMatrix& w, const kernels::ActivationRows& x) {
    table_.matmul(w, x, 0, w.panel_count(), layer_out_.data(), static_cast<std::size_t>(w.rows),
                  kernels::OutputMode::Store);
  }

  int rows_;
  kernels::WorkerPool pool_;
  const kernels::KernelTable& table_;
  LlamaConfig config_;
  LlamaWeights weights_;
  StepWorkspace work_;
  std::vector<float> logits_;
  std::vector<float> layer_out_;
  kernels::KvLayout kv_;
  turnstile::engine::HugePages kv_pool_;
};

// Each part as milliseconds of a step of `rows` rows; `share` is its part of their sum.
void BM_Parts(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  const bool prompt = rows > static_cast<int>(kMaxSequences);
  Parts parts(rows);
  double seconds[4] = {};
  const auto timed = [&](int part, auto&& work) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    work();
    seconds[part] += std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (auto _ : state) {
    timed(0, [&] { parts.products(); });
    timed(1, [&] { if (!prompt) parts.head(); });
    timed(2, [&] { parts.attention(prompt); });
    timed(3, [&] { parts.row_work(); });
  }
  const double total = seconds[0] + seconds[1] + seconds[2] + seconds[3];
  const char* names[] = {"products_%", "head_%", "attention_%", "rows_%"};
  for (int part = 0; part < 4; ++part) state.counters[names[part]] = 100.0 * seconds[part] / total;
}
BENCHMARK(BM_Parts)->Name("parts")->Arg(1)->Arg(8)->Arg(32)->Arg(512)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
