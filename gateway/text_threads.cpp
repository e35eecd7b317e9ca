#include "gateway/text_threads.h"

#include <atomic>
#include <cassert>
#include <chrono>
#include <thread>
#include <utility>

#include "gateway/spsc_ring.h"

namespace turnstile::gateway {
namespace {

// A signal that came before the sleep ends it at once, so its length matters to nobody.
constexpr std::chrono::milliseconds kLongestSleep{60'000};

}  // namespace

struct TextThreads::Worker {
  explicit Worker(WakeUp& ready_signal) : ready(ready_signal) {
    thread = std::thread([this] { run(); });
  }
  ~Worker() {
    stop();
    thread.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void stop() {
    is_stopping.store(true);
    work.signal();
  }

  void run() {
    while (!is_stopping.load()) {
      TextJob job;
      if (!in.try_pop(job)) {
        work.wait(kLongestSleep);
        continue;
      }
      job.run();
      const bool stored = out.try_push(std::move(job));
      assert(stored && "one job is out at a time");
      ready.signal();
    }
  }

  WakeUp& ready;
  WakeUp work;
  SpscRing<TextJob> in{1};
  SpscRing<TextJob> out{1};
  std::atomic<bool> is_stopping{false};
  bool is_busy = false;  // I/O thread: given and not taken
  std::thread thread;    // last: everything above exists when it starts
};

TextThreads::TextThreads(std::size_t count) {
  assert(count >= 1 && count <= kMaxThreads && "few threads");
  for (std::size_t i = 0; i < count; ++i) workers_.push_back(std::make_unique<Worker>(ready_));
}

// All are told before the first is waited for.
TextThreads::~TextThreads() {
  for (const auto& worker : workers_) worker->stop();
}

void TextThreads::give(TextJob job) {
  for (const auto& worker : workers_) {
    if (std::exchange(worker->is_busy, true)) continue;
    const bool stored = worker->in.try_push(std::move(job));
    assert(stored && "an idle thread has no job");
    worker->work.signal();
    return;
  }
  assert(false && "no more jobs than threads");
}

std::optional<TextJob> TextThreads::try_take() {
  for (const auto& worker : workers_) {
    TextJob job;
    if (!worker->is_busy || !worker->out.try_pop(job)) continue;
    worker->is_busy = false;
    return job;
  }
  return std::nullopt;
}

}  // namespace turnstile::gateway
