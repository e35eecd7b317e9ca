// event_loop.h: the I/O thread's loop: descriptors, one time to wake up at, signals.
//
//   run():  end_of_turn() -> posted handlers -> end_of_turn() ... until nothing moves -> sleep
//           until a descriptor is ready or it is time -> tell the watches -> end_of_turn() -> ...
//
// end_of_turn is where the turn's decisions are made: due deadlines, admission's dispatch, the next
// time to wake. So everything that arrived together is decided together.
//
// Coroutines run on Asio's queue of handlers; descriptors are watched by epoll directly, each
// registered once and edge-triggered. Asio's own watching costs a system call for every wait, which
// is a wait for every request.
//
// Thread:    I/O; the constructor and run() on the same thread. stop() from the I/O thread.
// Lifetime:  the loop outlives its watches. One loop of a process may watch signals at a time.
// Tests:     tests/gateway/event_loop_test.cpp, connection_test.cpp over socket pairs; tests/e2e.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "policy/instant.h"

namespace turnstile::gateway {

class Clock;

class EventLoop {
 public:
  // Throws std::system_error when the system has no descriptor for it.
  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Handlers only: sockets and timers of Asio would not be waited for.
  boost::asio::io_context& context();

  // SIGTERM, SIGINT, SIGQUIT and SIGHUP are no longer fatal but come here, one call each.
  void on_signal(std::function<void(int)> handler);

  void run(const std::function<void()>& end_of_turn);
  void stop();

  // The loop turns at `at`, or up to a millisecond later, even when nothing is ready. Of several
  // calls in one turn the earliest time counts; the next turn asks again.
  void wake_at(policy::Instant at);

  // What is ready now is told and handled, without waiting. For tests.
  void poll();

 private:
  friend class FdWatch;
  struct State;
  std::unique_ptr<State> state_;
};

// What an FdWatch tells its owner. A call is a hint: the next system call tells what there is.
class FdEvents {
 public:
  // There is something new to read. `is_end`: the peer has ended its side, or all is lost; what is
  // left can be read without waiting, and no further call will come for it.
  virtual void on_fd_readable(bool is_end) = 0;
  // There is room to write, or no use in it any more. Room is told after watch_writable() only.
  virtual void on_fd_writable() {}

 protected:
  ~FdEvents() = default;
};

// Watches a non-blocking descriptor from construction to destruction. Each change is told once: the
// owner reads until there is less than it asked for, or calls tell_again().
class FdWatch {
 public:
  // `owner` outlives the watch. An owned descriptor is closed with it, also when the constructor
  // throws (std::system_error: the kernel watches no more descriptors).
  enum class Ownership : bool { Owned, Borrowed };
  FdWatch(EventLoop& loop, int fd, Ownership ownership, FdEvents& owner);
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  // Tells in the next turn what is ready, although nothing has changed.
  void tell_again();

  // From now on room to write is told, at once if there is some. Not from the start: the kernel
  // would wake the thread once more for every answer that a client has read.
  void watch_writable();
  int fd() const { return fd_; }

 private:
  friend class EventLoop;

  EventLoop::State& loop_;
  int fd_;
  Ownership ownership_;
  FdEvents& owner_;
  bool tells_writable_ = false;
};

}  // namespace turnstile::gateway
