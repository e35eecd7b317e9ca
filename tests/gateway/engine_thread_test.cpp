// The engine on its own thread, over a real Engine and a toy model. Runs under the thread sanitizer
// as well: submissions, cancels, reports and the shutdown cross threads here.
#include "gateway/engine_thread.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "gateway/clock.h"
#include "tests/support/engine_run.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::gateway {
namespace {

constexpr int kPatienceMs = 20'000;

engine::Limits limits() {
  engine::Limits limits;
  limits.max_model_len = 256;
  limits.max_num_seqs = 8;
  limits.max_num_batched_tokens = 64;
  limits.kv_cache_blocks = 256;
  return limits;
}

engine::Request request(engine::RequestId id, std::uint32_t max_tokens) {
  engine::Request request;
  request.id = id;
  request.prompt = tests::toy_tokens("hello");
  request.sampling.seed = id;
  request.stop.max_tokens = max_tokens;
  request.stop.ignore_eos = true;
  return request;
}

// The I/O side: takes reports as they become ready and counts what they say.
class Reader {
 public:
  explicit Reader(EngineThread& thread) : thread_(thread) {}

  // Reads until `wanted` requests are done; false when that takes too long.
  bool read_until_done(std::size_t wanted) {
    while (done_.size() < wanted) {
      pollfd ready{thread_.ready_fd(), POLLIN, 0};
      if (poll(&ready, 1, kPatienceMs) != 1) return false;
      thread_.clear_ready();
      while (auto report = thread_.try_take()) {
        for (const engine::Event& event : report->output.events) {
          tokens_[event.request] += event.kind == engine::EventKind::Token;
          if (event.kind == engine::EventKind::Finished && event.request_done) {
            EXPECT_TRUE(done_.emplace(event.request, event.finish).second) << "ended twice";
          }
        }
        EXPECT_LE(report->began, report->ended);
        thread_.give_back(std::move(report));
      }
    }
    return true;
  }

  std::map<engine::RequestId, engine::FinishReason> done_;
  std::map<engine::RequestId, std::uint32_t> tokens_;

 private:
  EngineThread& thread_;
};

TEST(EngineThread, EveryRequestEndsOnceWithItsTokens) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  Reader reader(thread);
  for (engine::RequestId id = 1; id <= 40; ++id) {
    ASSERT_TRUE(thread.try_submit(request(id, 10)));
  }
  ASSERT_TRUE(reader.read_until_done(40));
  for (engine::RequestId id = 1; id <= 40; ++id) {
    EXPECT_EQ(reader.done_.at(id), engine::FinishReason::Length);
    EXPECT_EQ(reader.tokens_.at(id), 10U);
  }
  EXPECT_FALSE(thread.fault());
}

TEST(EngineThread, ACancelEndsARequestThatWouldRunForLong) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  Reader reader(thread);
  for (engine::RequestId id = 1; id <= 8; ++id) {
    ASSERT_TRUE(thread.try_submit(request(id, 240)));
    thread.cancel(id);
  }
  ASSERT_TRUE(reader.read_until_done(8));
  for (const auto& [id, reason] : reader.done_) {
    EXPECT_EQ(reason, engine::FinishReason::Cancelled) << id;
  }
}

// Of two requests the paused one ends after the other, with all its tokens, and only once resumed.
TEST(EngineThread, APausedRequestWaitsForItsResume) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  Reader reader(thread);
  ASSERT_TRUE(thread.try_submit(request(1, 20)));
  thread.pause(1);
  ASSERT_TRUE(thread.try_submit(request(2, 100)));
  ASSERT_TRUE(reader.read_until_done(1));
  EXPECT_TRUE(reader.done_.contains(2));
  thread.resume(1);
  ASSERT_TRUE(reader.read_until_done(2));
  EXPECT_EQ(reader.tokens_.at(1), 20U);
  EXPECT_EQ(reader.done_.at(1), engine::FinishReason::Length);
}

// Of the toy's vocabulary; how long a step takes is what a test is about.
class ModelWithoutCache : public engine::Model {
 public:
  std::size_t vocab_size() const override { return tests::kToyVocabulary; }
  std::size_t context_length() const override { return 4'096; }
  std::size_t kv_block_bytes() const override { return 64; }
  bool reserve(std::size_t, std::size_t, std::size_t) override { return true; }
  void copy_block(kernels::BlockId, kernels::BlockId) override {}
};

// A step takes until nobody wants it.
class EndlessModel final : public ModelWithoutCache {
 public:
  explicit EndlessModel(std::atomic<bool>& runs) : runs_(runs) {}
  bool forward(std::span<const engine::StepSlice>, std::span<float> logits,
               engine::StepWatch* watch) override {
    runs_.store(true);
    const auto begun = std::chrono::steady_clock::now();
    while (watch != nullptr && watch->is_wanted()) {
      if (std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(kPatienceMs)) break;
    }
    std::ranges::fill(logits, 0.0F);
    return watch == nullptr || watch->is_wanted();
  }

 private:
  std::atomic<bool>& runs_;
};

// The second request is submitted while the step runs and was never in it.
TEST(EngineThread, AStepThatEverybodyHasLeftEndsBeforeItsTime) {
  const SystemClock clock;
  std::atomic<bool> runs = false;
  auto engine = engine::Engine::create(std::make_unique<EndlessModel>(runs), tests::toy_tokenizer(),
                                       limits());
  ASSERT_TRUE(engine) << engine.error();
  EngineThread thread(std::move(*engine), clock, 64);
  Reader reader(thread);
  ASSERT_TRUE(thread.try_submit(request(1, 20)));
  while (!runs.load()) std::this_thread::yield();
  ASSERT_TRUE(thread.try_submit(request(2, 20)));
  thread.cancel(2);
  thread.cancel(1);
  ASSERT_TRUE(reader.read_until_done(2));
  EXPECT_EQ(reader.done_.at(1), engine::FinishReason::Cancelled);
  EXPECT_EQ(reader.done_.at(2), engine::FinishReason::Cancelled);
  EXPECT_EQ(reader.tokens_.at(1), 0U) << "it was not finished";
}

TEST(EngineThread, ALateReaderLosesNoReport) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  // Far more steps than reports exist: the engine has to wait for them to come back.
  ASSERT_TRUE(thread.try_submit(request(1, 200)));
  pollfd ready{thread.ready_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, kPatienceMs), 1);
  Reader reader(thread);
  ASSERT_TRUE(reader.read_until_done(1));
  EXPECT_EQ(reader.tokens_.at(1), 200U);
}

// Reports come back while the first token is on its way: an engine that has nothing to do, or has
// another report to go on with, must not take the processor then.
TEST(EngineThread, AReportThatComesBackWakesOnlyAnEngineThatLacksOne) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  std::vector<std::unique_ptr<StepReport>> kept;
  for (engine::RequestId id = 1; id <= 20; ++id) {
    ASSERT_TRUE(thread.try_submit(request(id, 8)));
    for (bool is_done = false; !is_done;) {
      auto report = thread.try_take();
      if (!report) {
        std::this_thread::yield();
        continue;
      }
      for (const engine::Event& event : report->output.events) is_done |= event.request_done;
      kept.push_back(std::move(report));
    }
    ASSERT_LT(kept.size(), EngineThread::kReports);
    for (int i = 0; i < 200; ++i) std::this_thread::yield();  // it falls asleep
    const std::uint64_t before = thread.wakes();
    for (auto& report : kept) thread.give_back(std::move(report));
    kept.clear();
    EXPECT_EQ(thread.wakes(), before) << "there is nothing to do";
  }
}

// An engine out of reports sleeps for a second when the one that comes back does not wake it. Each
// round takes all reports and leaves the engine the time to fall asleep.
TEST(EngineThread, TheReportThatTheEngineLacksWakesIt) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 64);
  ASSERT_TRUE(thread.try_submit(request(1, 200)));
  const std::uint64_t before = thread.wakes();
  std::vector<std::unique_ptr<StepReport>> kept;
  for (int round = 0; round < 10 && thread.wakes() == before; ++round) {
    while (kept.size() < EngineThread::kReports) {
      if (auto report = thread.try_take()) kept.push_back(std::move(report));
      std::this_thread::yield();
    }
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    for (auto& report : kept) thread.give_back(std::move(report));
    kept.clear();
  }
  EXPECT_GT(thread.wakes(), before);
}

// Far more than there are slots, and all of it unread while reports are out: what a request brings
// in its life is kept for as long as it takes, and whoever comes last is served at once.
TEST(EngineThread, PausedRequestsTakeNobodysRoom) {
  const SystemClock clock;
  constexpr engine::RequestId kPaused = 400;
  EngineThread thread(tests::toy_engine(limits()), clock, kPaused + 1);
  for (engine::RequestId id = 1; id <= kPaused; ++id) {
    ASSERT_TRUE(thread.try_submit(request(id, 40))) << "longer than there are reports";
    for (std::size_t i = 0; i < EnginePort::kMostPauses; ++i) {
      if (i > 0) thread.resume(id);
      thread.pause(id);
    }
  }
  ASSERT_TRUE(thread.try_submit(request(kPaused + 1, 10)));
  Reader reader(thread);
  ASSERT_TRUE(reader.read_until_done(1));
  EXPECT_TRUE(reader.done_.contains(kPaused + 1));
  for (engine::RequestId id = 1; id <= kPaused; ++id) {
    thread.resume(id);
    if (id % 2 == 0) thread.cancel(id);
  }
  ASSERT_TRUE(reader.read_until_done(kPaused + 1));
  for (engine::RequestId id = 1; id <= kPaused; ++id) {
    if (id % 2 == 0) {
      EXPECT_EQ(reader.done_.at(id), engine::FinishReason::Cancelled) << id;
    } else {
      EXPECT_EQ(reader.tokens_.at(id), 40U) << id;
    }
  }
}

// Requests whose connections are torn down stay open until a report tells of their end, so clients
// that leave fast enough come to the bound; who is next is not taken, and later is.
TEST(EngineThread, AtTheBoundARequestIsNotTakenUntilAnEndIsRead) {
  const SystemClock clock;
  EngineThread thread(tests::toy_engine(limits()), clock, 2);
  ASSERT_TRUE(thread.try_submit(request(1, 40)));
  ASSERT_TRUE(thread.try_submit(request(2, 40)));
  thread.cancel(1);
  thread.cancel(2);
  EXPECT_FALSE(thread.try_submit(request(3, 10))) << "no report has been taken";
  Reader reader(thread);
  ASSERT_TRUE(reader.read_until_done(2));
  ASSERT_TRUE(thread.try_submit(request(4, 10)));
  ASSERT_TRUE(reader.read_until_done(3));
  EXPECT_EQ(reader.tokens_.at(4), 10U);
  EXPECT_FALSE(reader.done_.contains(3));
}

// Nothing is read while this model computes.
class DeafModel final : public ModelWithoutCache {
 public:
  explicit DeafModel(std::atomic<bool>& may_end) : may_end_(may_end) {}
  bool forward(std::span<const engine::StepSlice>, std::span<float> logits,
               engine::StepWatch*) override {
    while (!may_end_.load()) std::this_thread::yield();
    std::ranges::fill(logits, 0.0F);
    return true;
  }

 private:
  std::atomic<bool>& may_end_;
};

TEST(EngineThread, WhatComesWhileAStepRunsIsKept) {
  const SystemClock clock;
  std::atomic<bool> may_end = false;
  auto engine = engine::Engine::create(std::make_unique<DeafModel>(may_end), tests::toy_tokenizer(),
                                       limits());
  ASSERT_TRUE(engine) << engine.error();
  constexpr engine::RequestId kRequests = 300;
  EngineThread thread(std::move(*engine), clock, kRequests);
  for (engine::RequestId id = 1; id <= kRequests; ++id) {
    ASSERT_TRUE(thread.try_submit(request(id, 100)));
    for (std::size_t i = 0; i < EnginePort::kMostPauses; ++i) {
      thread.pause(id);
      thread.resume(id);
    }
    thread.cancel(id);
  }
  may_end.store(true);
  Reader reader(thread);
  ASSERT_TRUE(reader.read_until_done(kRequests));
  for (const auto& [id, reason] : reader.done_) {
    EXPECT_EQ(reason, engine::FinishReason::Cancelled) << id;
  }
}

TEST(EngineThread, StopsWithWorkInEveryPhase) {
  const SystemClock clock;
  for (engine::RequestId count = 0; count < 12; ++count) {
    EngineThread thread(tests::toy_engine(limits()), clock, 64);
    for (engine::RequestId id = 1; id <= count; ++id) {
      EXPECT_TRUE(thread.try_submit(request(id, 200)));
      if (id % 3 == 0) thread.cancel(id);
    }
  }
}

}  // namespace
}  // namespace turnstile::gateway
