// step_sampling.h: samples the rows of a step on all workers at once.
//
//   job     choice    rows of logits                 results
//   0       A.0       [ r0 ]                         t
//   1       B.0       [ r1 | r2 | r3 ] two guesses   t, t, -     the second guess was wrong
//   2       C.1       [ r4 ]                         t           another choice of the same row
//
// A job samples the rows of one choice in order, as far as the guesses come true: each row is
// sampled with the history that the rows before it have made. Jobs share nothing but the logits,
// and what a job draws is a function of its rows and (seed, choice, position), so the results are
// the same on any number of workers.
//
// Thread: engine thread; run() uses the pool. No allocation once the arrays have grown.
// Tests:  engine_property_test.cpp, engine_speculation_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/active_request.h"
#include "engine/limits.h"
#include "engine/sampler.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {

class StepSampling {
 public:
  // `row_stride`: floats between rows; the first vocab_size of each are tokens' logits.
  StepSampling(std::size_t vocab_size, std::size_t row_stride, int workers);

  void clear();

  // The choice continues from `rows`, one row and one for each of the first `drafts` guesses of its
  // sequence. Returns the job's number.
  std::size_t add(Choice& choice, const float* rows, std::uint32_t drafts);

  // `pool` may be null. Updates each choice's counts by the tokens sampled.
  void run(kernels::WorkerPool* pool);

  // In the order of rows, at least one; nullopt, only at the end, is a row that cannot be sampled.
  std::span<const std::optional<SampledToken>> results(std::size_t job) const;
  // Of result `index`, as many as the request asked for.
  std::span<const TopLogprob> top_logprobs(std::size_t job, std::size_t index) const;

 private:
  struct Job {
    Choice* choice = nullptr;
    const float* rows = nullptr;
    std::uint32_t row_count = 0;
    std::uint32_t first_result = 0;
    std::uint32_t sampled = 0;
  };
  struct Worker {
    explicit Worker(std::size_t vocab_size) : sampler(vocab_size) {}
    Sampler sampler;
    std::vector<TopLogprob> top;
  };

  void run_job(Job& job, Worker& worker);

  std::size_t vocab_size_;
  std::size_t row_stride_;
  std::vector<Worker> workers_;
  std::vector<Job> jobs_;
  std::vector<std::optional<SampledToken>> results_;
  std::vector<TopLogprob> top_logprobs_;      // (results, kMaxTopLogprobs)
  std::vector<std::uint32_t> top_counts_;     // by result
};

}  // namespace turnstile::engine
