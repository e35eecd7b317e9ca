// text_threads.h: the threads of the text pool.
//
//   I/O thread                      thread i
//   give()     --> [SpscRing in ] --> run()          sleeps on `work` (eventfd) when it has none
//   try_take() <-- [SpscRing out] <-- done, then signals `ready` (eventfd)
//
// Few threads, since the engine has one for each core already: a single one counts millions of
// tokens a second, more than any engine reads.
//
// Thread:    TextWorkers' methods on the I/O thread.
// Lifetime:  the constructor starts the threads (std::system_error: the system refuses one); the
//            destructor lets each finish its task and joins. What was not taken by then is dropped.
// Tests:     tests/gateway/text_threads_test.cpp (suite tsan).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "gateway/text_workers.h"
#include "gateway/wake_up.h"

namespace turnstile::gateway {

class TextThreads final : public TextWorkers {
 public:
  static constexpr std::size_t kMaxThreads = 2;
  static std::size_t count_for(std::size_t cores) { return cores < 8 ? 1 : kMaxThreads; }

  explicit TextThreads(std::size_t count);
  ~TextThreads() override;
  TextThreads(const TextThreads&) = delete;
  TextThreads& operator=(const TextThreads&) = delete;

  std::size_t count() const override { return workers_.size(); }
  void give(TextJob job) override;
  std::optional<TextJob> try_take() override;

  // Readable when there is something to take. Call clear_ready() first.
  int ready_fd() const { return ready_.fd(); }
  void clear_ready() { ready_.clear(); }

 private:
  struct Worker;

  WakeUp ready_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace turnstile::gateway
