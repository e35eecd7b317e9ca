#include "bench/machine_limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace turnstile::bench {
namespace {

constexpr int kTries = 5;
constexpr std::size_t kReadBytes = 256U << 20;

#if defined(__x86_64__)
constexpr int kChains = 12;  // independent sums, more than latency times throughput
constexpr long kRounds = 2'000'000;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The empty statements hide from the compiler that an operand never changes.
[[gnu::target("avx2")]] void multiply_avx2() {
  __m256i sums[kChains] = {};
  const __m256i weights = _mm256_set1_epi8(3);
  __m256i activations = _mm256_set1_epi8(5);
  for (long round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) {
      __asm__ volatile("" : "+x"(activations));
      sums[chain] =
          _mm256_add_epi16(sums[chain], _mm256_maddubs_epi16(weights, activations));
      __asm__ volatile("" : "+x"(sums[chain]));
    }
  }
}

[[gnu::target("avx2,avxvnni")]] void multiply_avxvnni() {
  __m256i sums[kChains] = {};
  const __m256i weights = _mm256_set1_epi8(3);
  const __m256i activations = _mm256_set1_epi8(5);
  for (long round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) {
      sums[chain] = _mm256_dpbusd_avx_epi32(sums[chain], weights, activations);
      __asm__ volatile("" : "+x"(sums[chain]));
    }
  }
}

[[gnu::target("avx512f,avx512vnni")]] void multiply_avx512() {
  __m512i sums[kChains] = {};
  const __m512i weights = _mm512_set1_epi8(3);
  const __m512i activations = _mm512_set1_epi8(5);
  for (long round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) {
      sums[chain] = _mm512_dpbusd_epi32(sums[chain], weights, activations);
      __asm__ volatile("" : "+v"(sums[chain]));
    }
  }
}

double gops_of(void (*multiply)(), double operations_each) {
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const double began = thread_seconds();
    multiply();
    best = std::min(best, thread_seconds() - began);
  }
  return 1e-9 * operations_each * kChains * kRounds / best;
}

#endif

std::uint64_t read_all(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] ^= words[i + j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum ^= part;
  return sum;
}

}  // namespace

std::optional<double> multiply_gops([[maybe_unused]] kernels::Level level) {
#if defined(__x86_64__)
  switch (level) {
    case kernels::Level::Avx2: return gops_of(multiply_avx2, 64);
    case kernels::Level::AvxVnni: return gops_of(multiply_avxvnni, 64);
    case kernels::Level::Avx512Vnni: return gops_of(multiply_avx512, 128);
    case kernels::Level::Scalar:
    case kernels::Level::Amx: break;
  }
#endif
  return std::nullopt;
}

double read_gigabytes_per_s(int threads) {
  void* memory = mmap(nullptr, kReadBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, kReadBytes, MADV_HUGEPAGE);
  std::memset(memory, 1, kReadBytes);
  const std::size_t words_each =
      kReadBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(threads);
  double best = 1e9;
  std::atomic<std::uint64_t> sink{0};
  for (int i = 0; i < kTries; ++i) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    std::vector<std::thread> readers;
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        const auto* words = static_cast<const std::uint64_t*>(memory);
        sink += read_all(words + static_cast<std::size_t>(t) * words_each, words_each);
      });
    }
    for (std::thread& reader : readers) reader.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count());
  }
  munmap(memory, kReadBytes);
  return 1e-9 * static_cast<double>(words_each * sizeof(std::uint64_t)) * threads / best;
}

}  // namespace turnstile::bench
