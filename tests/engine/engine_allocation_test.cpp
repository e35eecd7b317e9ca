// Counts calls of operator new: a steady decode step makes none.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "engine/engine.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_tokenizer.h"

namespace {

std::atomic<std::size_t> allocation_count = 0;

}  // namespace

// A sanitizer brings its own allocator, forms included that cannot be replaced here.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;

// The replaceable forms; the others (arrays, nothrow) call these by the standard. Not inlined: GCC
// would see free() beside a new whose body it does not look into.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace turnstile::tests {
namespace {

engine::Request decoding_request(engine::RequestId id) {
  engine::Request request;
  request.id = id;
  for (engine::TokenId i = 0; i < 20 + 3 * id; ++i) request.prompt.push_back((i * 7 + id) % 64);
  request.stop.max_tokens = 400;
  request.stop.ignore_eos = true;
  request.sampling.seed = id;
  switch (id % 4) {
    case 0:
      request.sampling.temperature = 0.0F;
      break;
    case 1:
      request.sampling.top_p = 0.9F;
      request.sampling.repetition_penalty = 1.1F;
      break;
    case 2:
      request.sampling.top_k = 10;
      request.sampling.top_logprobs = 5;
      request.stop.strings = {"not in this text", "nor this"};
      break;
    default:
      request.sampling.frequency_penalty = 0.2F;
      break;
  }
  return request;
}

TEST(EngineAllocation, ASteadyDecodeStepAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns the allocator";
  engine::Limits limits;
  limits.max_model_len = 600;
  limits.max_num_seqs = 32;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 1500;
  auto created = engine::Engine::create(std::make_unique<ToyModel>(), toy_tokenizer(), limits);
  ASSERT_TRUE(created);
  engine::Engine& engine = **created;
  for (engine::RequestId id = 0; id < 32; ++id) engine.add(decoding_request(id));
  engine::StepOutput out;
  constexpr int kWarmUp = 60;
  for (int i = 0; i < kWarmUp; ++i) {
    out.clear();
    engine.step(out);
  }
  const std::size_t before = allocation_count;
  // Long enough for every sequence to take new blocks and publish full ones.
  for (int i = 0; i < 100; ++i) {
    out.clear();
    engine.step(out);
    ASSERT_EQ(out.stats.rows, 32U);
  }
  EXPECT_EQ(allocation_count - before, 0U);
}

}  // namespace
}  // namespace turnstile::tests
