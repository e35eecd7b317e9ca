// text_pool.h: work that grows with a client's text, away from the I/O thread.
//
//   TextTicket --try_start()--> [ waiting, in order ] --give()--> TextWorkers (threads, or a fake)
//       ^                                                              |
//       '--- EventKind::TextDone <--- take_done(), once a turn <-------'
//
// Reading, rendering and tokenizing a text are linear in it, but a megabyte may take a hundred
// milliseconds in which nobody else would be served. So texts above LongText's sizes become tasks;
// what is shorter delays nobody for as long as a millisecond.
//
// Order: by class, as for the engine; inside a class a team's first open task goes before another
// team's second, then by arrival. So whoever sends many long texts waits behind himself.
//
// A ticket that goes away takes its task out of the queue; a task that runs by then is let go, ends
// for nobody and is destroyed in the next take_done(). So a coroutine may end at any time, and a
// task refers to nothing but what it owns and what outlives the workers.
//
// Invariants (check_invariants()):
//   1. A worker has at most one task, and none is idle while a task waits.
//   2. The teams' counts add up to the tasks that wait or run for somebody.
//
// Thread:    I/O.
// Lifetime:  workers, pool, then tickets; a ticket lies in the frame of its coroutine.
// Errors:    no room is expected: try_start() is false, answered with 503 overloaded. What a task
//            throws comes out of TextTicket::take().
// Cost:      O(log waiting) a task; a turn without a finished task costs one look at each worker.
// Tests:     tests/gateway/text_pool_test.cpp; tests/sim/spine_sim_test.cpp (a cancel and a fault
//            while a task waits or runs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "gateway/mailbox.h"
#include "gateway/text_workers.h"

namespace turnstile::gateway {

// From how many bytes on a text is work for the pool. Measured on one core of an EPYC at its worst:
// JSON of nothing but keys takes 0.85 ms for 64 KiB (numbers 0.28, plain text 0.01), random letters
// 0.7 ms to tokenize for 8 KiB (English 0.06).
struct LongText {
  std::size_t body_bytes = 64 << 10;  // to read as JSON
  std::size_t text_bytes = 8 << 10;   // to tokenize
};

class TextTicket;

class TextPool {
 public:
  // As many as may wait for the engine: who has a place there finds one here.
  static constexpr std::size_t kMaxTasks = 256;
  static constexpr std::size_t kMaxTasksOfTeam = kMaxTasks / 2;

  explicit TextPool(TextWorkers& workers, const LongText& long_text = {})
      : workers_(workers), long_text_(long_text) {}
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  const LongText& long_text() const { return long_text_; }

  // Collects what is done and gives out what waits.
  void take_done();

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const { return running_.size(); }

  std::optional<std::string> check_invariants() const;

 private:
  friend class TextTicket;
  using Order = std::tuple<std::size_t, std::size_t, std::uint64_t>;  // class, turn of team, id
  struct Waiting {
    TextTicket* ticket;
    std::unique_ptr<TextTask> task;
  };
  struct Running {
    std::uint64_t id;
    TextTicket* ticket;  // null: it was let go
  };

  bool try_start(TextTicket& ticket, std::size_t class_index, std::string_view team,
                 std::unique_ptr<TextTask> task);
  void let_go(TextTicket& ticket);
  void give_out();
  void leave_team(const std::string& team);

  TextWorkers& workers_;
  LongText long_text_;
  std::map<Order, Waiting> waiting_;
  std::vector<Running> running_;
  std::map<std::string, std::size_t, std::less<>> tasks_by_team_;  // that wait or run for somebody
  std::uint64_t last_id_ = 0;
};

// What a coroutine holds while its text is worked on. TextDone comes to its mailbox when is_done().
class TextTicket {
 public:
  TextTicket(TextPool& pool, Mailbox& mailbox) : pool_(pool), mailbox_(mailbox) {}
  ~TextTicket() { pool_.let_go(*this); }
  TextTicket(const TextTicket&) = delete;
  TextTicket& operator=(const TextTicket&) = delete;

  // False when there is no room; the task is gone then. REQUIRES: not started.
  bool try_start(std::size_t class_index, std::string_view team, std::unique_ptr<TextTask> task) {
    return pool_.try_start(*this, class_index, team, std::move(task));
  }

  bool is_done() const { return state_ == State::Done; }

  // The task after its run, once. Throws what it has thrown. REQUIRES: is_done().
  std::unique_ptr<TextTask> take();

 private:
  friend class TextPool;
  enum class State : std::uint8_t { New, Waiting, Running, Done };

  TextPool& pool_;
  Mailbox& mailbox_;
  State state_ = State::New;
  TextPool::Order order_{};
  std::string team_;
  TextJob done_;
};

}  // namespace turnstile::gateway
