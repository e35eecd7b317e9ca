// engine_bench.cpp: what the engine costs beside the model.
//
//   schedule/N       Scheduler::plan() and on_computed() of a steady decode step of N sequences
//   step/N           the whole Engine::step() of N decoding sequences; the ToyModel's own time is
//                    part of it (it hashes every position), so this is an upper bound
//   find_prefix      cache lookup of a prompt of 1,024 tokens that is wholly cached, keys included
//   sample/...       one row of 49,152 logits shaped like a language model's; sample_flat/...: one
//                    whose nucleus is thousands of tokens
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile {
namespace {

using engine::TokenId;

engine::Limits limits_for(std::uint32_t sequences) {
  engine::Limits limits;
  limits.max_model_len = 2048;
  limits.max_num_seqs = sequences;
  limits.max_num_batched_tokens = std::max<std::uint32_t>(512, sequences);
  limits.kv_cache_blocks = sequences * engine::blocks_for(limits.max_model_len);
  return limits;
}

void schedule(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const engine::Limits limits = limits_for(count);
  engine::Scheduler scheduler(limits);
  std::vector<engine::Sequence> sequences(count);
  engine::StepPlan plan;
  std::uint64_t arrivals = 0;
  const auto add = [&](engine::Sequence& sequence) {
    sequence = {};
    sequence.order.arrival = arrivals++;
    sequence.prompt_tokens = 8;
    sequence.final_tokens = limits.max_model_len;
    sequence.tokens.reserve(sequence.final_tokens);
    sequence.table.blocks.reserve(engine::blocks_for(sequence.final_tokens));
    sequence.table.keys.reserve(engine::blocks_for(sequence.final_tokens));
    sequence.tokens.assign(8, static_cast<TokenId>(arrivals));
    scheduler.add(sequence, 1);
  };
  const auto advance = [&] {
    for (const engine::PlannedSlice& slice : plan.slices) {
      scheduler.on_computed(*slice.sequence, slice.rows);
      slice.sequence->tokens.push_back(7);
    }
  };
  for (auto& sequence : sequences) add(sequence);
  scheduler.plan(plan);
  advance();
  for (auto _ : state) {
    scheduler.plan(plan);
    advance();
    if (sequences[0].tokens.size() + 1 >= limits.max_model_len) {
      state.PauseTiming();
      for (auto& sequence : sequences) scheduler.finish(sequence);
      for (auto& sequence : sequences) add(sequence);
      scheduler.plan(plan);
      advance();
      state.ResumeTiming();
    }
  }
}
BENCHMARK(schedule)->Arg(1)->Arg(32)->Arg(256);

void step(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const engine::Limits limits = limits_for(count);
  auto created = engine::Engine::create(std::make_unique<tests::ToyModel>(),
                                        tests::toy_tokenizer(), limits);
  if (!created) std::abort();
  engine::Engine& engine = **created;
  engine::StepOutput out;
  engine::RequestId next_id = 0;
  const auto fill = [&] {
    for (std::uint32_t i = 0; i < count; ++i) {
      engine::Request request;
      request.id = next_id++;
      request.prompt.assign(8, static_cast<TokenId>(request.id % 60));
      request.stop.max_tokens = 512;
      request.stop.ignore_eos = true;
      engine.add(request);
    }
  };
  for (auto _ : state) {
    if (!engine.has_work()) {
      state.PauseTiming();
      fill();
      out.clear();
      engine.step(out);
      state.ResumeTiming();
    }
    out.clear();
    engine.step(out);
  }
}
BENCHMARK(step)->Arg(1)->Arg(32);

void find_prefix(benchmark::State& state) {
  engine::KvCache kv(128, true);
  std::vector<TokenId> tokens(1025);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7);
  engine::BlockTable writer;
  kv.extend(writer, tokens.size());
  kv.publish(writer, tokens, tokens.size());
  engine::BlockTable reader;
  for (auto _ : state) {
    reader.keys.clear();
    benchmark::DoNotOptimize(kv.find_prefix(reader, tokens));
  }
}
BENCHMARK(find_prefix);

// Most tokens far below the best few, as a trained model leaves them.
std::vector<float> language_like_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> row(49'152);
  for (float& x : row) x = normal(random);
  for (int i = 0; i < 40; ++i) row[random() % row.size()] = 8.0F + normal(random);
  return row;
}

// A flat row: the first answer of a model that knows nothing.
std::vector<float> flat_row() {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> row(49'152);
  for (float& x : row) x = normal(random);
  return row;
}

void sample_row(benchmark::State& state, const std::vector<float>& row, float temperature,
                std::uint32_t top_k, float top_p, float min_p, bool penalties, bool logprobs) {
  engine::Sampler sampler(row.size());
  engine::SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  if (penalties) params.repetition_penalty = 1.1F;
  if (logprobs) params.top_logprobs = 5;
  std::vector<TokenId> prompt(500);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * 31);
  const engine::TokenCounts counts(params, prompt, 16);
  std::vector<engine::TopLogprob> top;
  std::uint32_t position = 0;
  for (auto _ : state) {
    top.clear();
    benchmark::DoNotOptimize(sampler.sample(row, {params, counts, {}, 0, position++}, top));
  }
}
void sample(benchmark::State& state, float temperature, std::uint32_t top_k, float top_p,
            float min_p, bool penalties, bool logprobs) {
  sample_row(state, language_like_row(), temperature, top_k, top_p, min_p, penalties, logprobs);
}
void sample_flat(benchmark::State& state, float top_p) {
  sample_row(state, flat_row(), 1.0F, 0, top_p, 0.0F, false, false);
}
BENCHMARK_CAPTURE(sample, greedy, 0.0F, 0, 1.0F, 0.0F, false, false);
BENCHMARK_CAPTURE(sample, temperature, 1.0F, 0, 1.0F, 0.0F, false, false);
BENCHMARK_CAPTURE(sample, top_k_40, 1.0F, 40, 1.0F, 0.0F, false, false);
BENCHMARK_CAPTURE(sample, top_p_95, 0.7F, 0, 0.95F, 0.0F, false, false);
BENCHMARK_CAPTURE(sample, top_p_95_hot, 3.0F, 0, 0.95F, 0.0F, false, false);
BENCHMARK_CAPTURE(sample_flat, top_p_95, 0.95F);
BENCHMARK_CAPTURE(sample_flat, top_p_50, 0.5F);
BENCHMARK_CAPTURE(sample, min_p_5, 1.0F, 0, 1.0F, 0.05F, false, false);
BENCHMARK_CAPTURE(sample, penalties, 1.0F, 0, 1.0F, 0.0F, true, false);
BENCHMARK_CAPTURE(sample, greedy_logprobs, 0.0F, 0, 1.0F, 0.0F, false, true);

}  // namespace
}  // namespace turnstile

BENCHMARK_MAIN();
