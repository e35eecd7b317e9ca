// forward() allocates nothing once the memory is reserved: a step must not wait for the allocator.
// Loading allocates what a file is, not what it claims to be.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/model/llama.h"
#include "engine/model/rope_table.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/random_llama.h"

namespace {

std::atomic<std::size_t> allocation_count{0};
std::atomic<std::size_t> allocated_bytes{0};

}  // namespace

// A sanitizer brings its own allocator, forms included that cannot be replaced here.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;

// Replaces the program's allocator, on all threads, the workers included. Not inlined: GCC would
// see free() beside a new whose body it does not look into.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace turnstile {
namespace {

TEST(RopeTable, MemoryThatCannotBeHadIsAnAnswer) {
  EXPECT_FALSE(engine::RopeTable::build(std::size_t{1} << 50, 64, 10'000.0, 1.0, {}));
  const auto table = engine::RopeTable::build(3, 8, 10'000.0, 1.0, {});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->positions(), 3U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(table->cos_at(0)[i], 1.0F);
    EXPECT_EQ(table->sin_at(0)[i], 0.0F);
  }
  EXPECT_FLOAT_EQ(table->cos_at(2)[0], -0.41614684F);
  EXPECT_FLOAT_EQ(table->sin_at(2)[1], 0.19866933F) << "a tenth of the first pair's speed";
}

TEST(LlamaForward, AllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns the allocator";
  for (const tests::LlamaShape& shape : tests::special_shapes()) {
    const std::vector<std::byte> bytes = tests::random_llama(shape, 7).serialize();
    const auto file = engine::GgufFile::parse(bytes);
    ASSERT_TRUE(file);
    engine::LlamaOptions options;
    options.level = kernels::best_level();
    options.threads = 3;
    const auto loaded = engine::LlamaModel::load(*file, options);
    ASSERT_TRUE(loaded);
    engine::LlamaModel& model = **loaded;
    ASSERT_TRUE(model.reserve(64, 64, 32));

    std::vector<kernels::BlockId> blocks(64);
    std::iota(blocks.begin(), blocks.end(), kernels::BlockId{0});
    std::vector<engine::TokenId> tokens(40);
    std::iota(tokens.begin(), tokens.end(), engine::TokenId{0});
    // A prompt chunk and many decodes, the largest step first so that nothing is warmed up.
    std::vector<engine::StepSlice> slices = {{tokens, 0, std::span(blocks).first(4), false}};
    for (std::size_t i = 0; i < 24; ++i) {
      slices.push_back({std::span(tokens).first(1), 0, std::span(blocks).subspan(4 + i, 1), true});
    }
    std::vector<float> logits(24 * model.vocab_size());
    const std::size_t before = allocation_count.load();
    model.forward(slices, logits);
    model.forward(std::span(slices).last(1), logits);
    model.copy_block(1, 2);
    EXPECT_EQ(allocation_count.load(), before);
  }
}

// A number of the header says that there is more of everything than there is, or far more. The most
// that a file of this size may claim honestly is 1,024 layers, whose tensors are named one by one.
TEST(HostileFile, AllocatesLittleWhateverItClaims) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns the allocator";
  const tests::LlamaShape shape;
  tests::GgufImage image = tests::random_llama(shape, 7);
  std::vector<std::string> tokens;
  for (int i = 0; i < shape.vocab; ++i) tokens.push_back("t" + std::to_string(i));
  image.set("tokenizer.ggml.model", std::string("gpt2"));
  image.set("tokenizer.ggml.pre", std::string("smollm"));
  image.set("tokenizer.ggml.merges", std::vector<std::string>{"t 1", "t1 2"});
  image.set("tokenizer.ggml.tokens", std::move(tokens));
  const std::vector<std::byte> good = image.serialize();
  const std::size_t most_bytes = 16 * good.size() + (std::size_t{2} << 20);
  const std::string_view text(reinterpret_cast<const char*>(good.data()), good.size());
  const std::size_t header_end = text.rfind("output_norm.weight") + 64;
  ASSERT_LT(header_end, good.size());
  std::vector<std::byte> bytes = good;
  for (std::size_t at = 8; at < header_end; ++at) {
    for (const std::uint64_t claim : {std::uint64_t{1} << 10, std::uint64_t{1} << 16,
                                      std::uint64_t{1} << 28, std::uint64_t{1} << 40}) {
      std::memcpy(bytes.data() + at, &claim, sizeof claim);
      const std::size_t before = allocated_bytes.load();
      if (const auto file = engine::GgufFile::parse(bytes)) {
        (void)engine::Tokenizer::from_gguf(*file);
        (void)engine::LlamaModel::load(*file, {});
      }
      ASSERT_LE(allocated_bytes.load() - before, most_bytes) << claim << " at byte " << at;
    }
    std::memcpy(bytes.data() + at, good.data() + at, sizeof(std::uint64_t));
  }
}

}  // namespace
}  // namespace turnstile
