// text_workers.h: who runs the tasks of the text pool (text_pool.h).
//
// Thread: I/O, but for TextTask::run(). Nothing is locked: a task belongs to whoever holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

namespace turnstile::gateway {

class TextTask {
 public:
  virtual ~TextTask() = default;
  // Once, on any thread. Touches only what the task owns and what is immutable and outlives the
  // workers.
  virtual void run() = 0;
};

// A task on its way through a worker.
struct TextJob {
  std::uint64_t id = 0;
  std::unique_ptr<TextTask> task;
  std::exception_ptr failure;  // what run() has thrown

  void run() noexcept {
    try {
      task->run();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

// Two implementations: TextThreads (text_threads.h), and tests/support/fake_text_workers.h.
class TextWorkers {
 public:
  virtual ~TextWorkers() = default;
  // How many tasks run at a time.
  virtual std::size_t count() const = 0;
  // REQUIRES: fewer than count() jobs are given and not yet taken.
  virtual void give(TextJob job) = 0;
  // A job that is done, if there is one.
  virtual std::optional<TextJob> try_take() = 0;
};

}  // namespace turnstile::gateway
