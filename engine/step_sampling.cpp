#include "engine/step_sampling.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {

StepSampling::StepSampling(std::size_t vocab_size, std::size_t row_stride, int workers)
    : vocab_size_(vocab_size), row_stride_(row_stride) {
  assert(workers >= 1 && vocab_size <= row_stride && "rows hold the vocabulary");
  workers_.reserve(static_cast<std::size_t>(workers));
  for (int i = 0; i < workers; ++i) {
    workers_.emplace_back(vocab_size).top.reserve(kMaxTopLogprobs);
  }
}

void StepSampling::clear() {
  jobs_.clear();
  results_.clear();
  top_counts_.clear();
}

std::size_t StepSampling::add(Choice& choice, const float* rows, std::uint32_t drafts) {
  assert(drafts <= choice.sequence.draft.size() && "only guesses that exist are judged");
  jobs_.push_back({.choice = &choice,
                   .rows = rows,
                   .row_count = drafts + 1,
                   .first_result = static_cast<std::uint32_t>(results_.size()),
                   .sampled = 0});
  results_.resize(results_.size() + drafts + 1);
  top_counts_.resize(results_.size());
  if (top_logprobs_.size() < results_.size() * kMaxTopLogprobs) {
    top_logprobs_.resize(results_.size() * kMaxTopLogprobs);
  }
  return jobs_.size() - 1;
}

void StepSampling::run(kernels::WorkerPool* pool) {
  if (pool == nullptr || jobs_.size() < 2) {
    for (Job& job : jobs_) run_job(job, workers_.front());
    return;
  }
  pool->run(static_cast<int>(jobs_.size()), [this](int job, int worker) {
    run_job(jobs_[static_cast<std::size_t>(job)], workers_[static_cast<std::size_t>(worker)]);
  });
}

void StepSampling::run_job(Job& job, Worker& worker) {
  Choice& choice = *job.choice;
  const Sequence& sequence = choice.sequence;
  const Request& request = sequence.request->request;
  while (job.sampled < job.row_count) {
    const std::uint32_t i = job.sampled++;
    const bool may_end = choice.generated() + i + 1 > request.stop.min_tokens;
    worker.top.clear();
    const auto token = worker.sampler.sample(
        std::span(job.rows + i * row_stride_, vocab_size_),
        {.params = request.sampling,
         .counts = choice.counts,
         .masked = may_end ? std::span<const TokenId>() : std::span(sequence.request->end_tokens),
         .choice = sequence.order.choice,
         .position = static_cast<std::uint32_t>(sequence.tokens.size()) + i},
        worker.top);
    const std::size_t result = job.first_result + i;
    results_[result] = token;
    top_counts_[result] = static_cast<std::uint32_t>(worker.top.size());
    std::copy(worker.top.begin(), worker.top.end(),
              top_logprobs_.begin() + static_cast<std::ptrdiff_t>(result * kMaxTopLogprobs));
    if (!token) return;
    choice.counts.add(token->token);
    if (i + 1 < job.row_count && sequence.draft[i] != token->token) return;
  }
}

std::span<const std::optional<SampledToken>> StepSampling::results(std::size_t job) const {
  return std::span(results_).subspan(jobs_[job].first_result, jobs_[job].sampled);
}

std::span<const TopLogprob> StepSampling::top_logprobs(std::size_t job, std::size_t index) const {
  const std::size_t result = jobs_[job].first_result + index;
  return std::span(top_logprobs_).subspan(result * kMaxTopLogprobs, top_counts_[result]);
}

}  // namespace turnstile::engine
