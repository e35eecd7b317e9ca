// The threads of the text pool. Runs under the thread sanitizer as well.
#include "gateway/text_threads.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/support/few_threads.h"

namespace turnstile::gateway {
namespace {

constexpr int kSignalWaitMs = 20'000;

class SquareTask final : public TextTask {
 public:
  explicit SquareTask(std::uint64_t number) : number_(number) {}
  void run() override {
    if (number_ % 10 == 7) throw std::runtime_error("seven");
    text_ = std::to_string(number_ * number_);
  }
  const std::string& text() const { return text_; }

 private:
  std::uint64_t number_;
  std::string text_;
};

// What crosses the threads is the text of a task, written there and read here.
TEST(TextThreads, EachJobComesBackOnceAndDone) {
  constexpr std::uint64_t kJobs = 2'000;
  TextThreads threads(TextThreads::kMaxThreads);
  std::vector<int> came_back(kJobs, 0);
  std::uint64_t given = 0;
  std::uint64_t out = 0;
  std::uint64_t wrong = 0;
  while (given < kJobs || out > 0) {
    for (; given < kJobs && out < threads.count(); ++given, ++out) {
      threads.give({given, std::make_unique<SquareTask>(given), nullptr});
    }
    pollfd ready{.fd = threads.ready_fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, kSignalWaitMs), 1) << "a signal for what is done";
    threads.clear_ready();
    while (const auto job = threads.try_take()) {
      --out;
      ++came_back[job->id];
      const auto& task = static_cast<const SquareTask&>(*job->task);
      const bool has_failed = job->id % 10 == 7;
      if (has_failed != static_cast<bool>(job->failure)) ++wrong;
      if (!has_failed && task.text() != std::to_string(job->id * job->id)) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(came_back, std::vector<int>(kJobs, 1));
}

class CountedTask final : public TextTask {
 public:
  explicit CountedTask(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~CountedTask() override { --alive_; }
  void run() override {}

 private:
  std::atomic<int>& alive_;
};

TEST(TextThreads, TheEndDropsWhatIsStillThere) {
  std::atomic<int> alive{0};
  for (int i = 0; i < 50; ++i) {
    TextThreads threads(TextThreads::kMaxThreads);
    threads.give({1, std::make_unique<CountedTask>(alive), nullptr});
    threads.give({2, std::make_unique<CountedTask>(alive), nullptr});
  }
  EXPECT_EQ(alive.load(), 0);
}

TEST(TextThreads, OneIsEnoughForASmallMachine) {
  EXPECT_EQ(TextThreads::count_for(2), 1U);
  EXPECT_EQ(TextThreads::count_for(64), TextThreads::kMaxThreads);
}

// The thread that had been started ended the process without a sentence.
TEST(TextThreads, AThreadThatTheSystemRefusesIsAnException) {
  if (!tests::kThreadsCanBeLimited) GTEST_SKIP() << tests::kNoThreadLimit;
  EXPECT_EXIT(
      {
        tests::allow_threads(1);
        try {
          const TextThreads threads(2);
        } catch (const std::system_error&) {
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace turnstile::gateway
