// fake_text_workers.h: workers of the text pool that work when the test says so, on its thread.
//
// Like the real ones they give nothing back before it is done, and each has one task at a time.
#pragma once

#include <cassert>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/text_workers.h"

namespace turnstile::tests {

class FakeTextWorkers final : public gateway::TextWorkers {
 public:
  explicit FakeTextWorkers(std::size_t count) : count_(count) {}

  std::size_t count() const override { return count_; }
  void give(gateway::TextJob job) override {
    assert(given_.size() + done_.size() < count_ && "one task for each worker");
    given_.push_back(std::move(job));
  }
  std::optional<gateway::TextJob> try_take() override {
    if (done_.empty()) return std::nullopt;
    std::optional<gateway::TextJob> job(std::move(done_.front()));
    done_.pop_front();
    return job;
  }

  // Does the task of one worker; false when that one has none.
  bool step(std::size_t worker = 0) {
    if (worker >= given_.size()) return false;
    gateway::TextJob job = std::move(given_[worker]);
    given_.erase(given_.begin() + static_cast<std::ptrdiff_t>(worker));
    job.run();
    done_.push_back(std::move(job));
    return true;
  }

 private:
  std::size_t count_;
  std::vector<gateway::TextJob> given_;
  std::deque<gateway::TextJob> done_;
};

}  // namespace turnstile::tests
