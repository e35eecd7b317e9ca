// event_loop.h: the I/O thread's loop: descriptors, one timer, signals.
//
//   run():  sleep until something is ready -> handle what is ready -> end_of_turn() -> ...
//
// end_of_turn is where the turn's decisions are made: due deadlines, admission's dispatch, the next
// time to wake. So everything that arrived together is decided together.
//
// Thread:    I/O; the constructor and run() on the same thread. stop() from the I/O thread.
// Why a class of our own around Asio: with FdWatch it is the only file that names Asio's
// descriptors, timers and signals, so the rest compiles without them and a simulation can do
// without a kernel.
// Tests:     tests/gateway/connection_test.cpp uses it over socket pairs.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "policy/instant.h"

namespace turnstile::gateway {

class Clock;

class EventLoop {
 public:
  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  boost::asio::io_context& context();

  // SIGTERM, SIGINT and SIGHUP are no longer fatal but come here, one call each.
  void on_signal(std::function<void(int)> handler);

  void run(const std::function<void()>& end_of_turn);
  void stop();

  // The loop turns at `at` even when nothing is ready. A later call with an earlier time counts; a
  // later time does not cancel an earlier one, it only costs a turn.
  void wake_at(policy::Instant at);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What an FdWatch tells its owner.
class FdEvents {
 public:
  virtual void on_fd_readable() = 0;
  virtual void on_fd_writable() {}

 protected:
  ~FdEvents() = default;
};

// Owns a non-blocking descriptor and says when it is ready. Each wait gives one call, which also
// comes on errors and hang-ups (the next system call tells).
class FdWatch {
 public:
  // `owner` outlives the watch. `fd` is closed by the watch unless `borrowed`.
  enum class Ownership : bool { Owned, Borrowed };
  FdWatch(boost::asio::io_context& context, int fd, Ownership ownership, FdEvents& owner);
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  void wait_readable();
  void wait_writable();
  int fd() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the handlers that Asio still holds
};

}  // namespace turnstile::gateway
