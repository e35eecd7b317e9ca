#include "gateway/event_loop.h"

#include <csignal>
#include <optional>
#include <utility>

#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "gateway/clock.h"

namespace turnstile::gateway {

namespace asio = boost::asio;

namespace {

// One I/O thread: Asio may leave out the locks around its handler queue.
constexpr int kConcurrency = 1;
// Handlers of one turn. Under load there is always one more; decisions must not wait for the last.
constexpr int kMaxHandlersPerTurn = 256;

}  // namespace

struct EventLoop::State {
  explicit State(const Clock& used_clock) : clock(used_clock) {}

  void wait_for_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      wait_for_signal();
      signal_handler(number);
    });
  }

  const Clock& clock;
  asio::io_context context{kConcurrency};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer timer{context};
  asio::signal_set signals{context};
  std::function<void(int)> signal_handler;
  std::optional<policy::Instant> wakes_at;
  bool stopped = false;
};

EventLoop::EventLoop(const Clock& clock) : state_(std::make_unique<State>(clock)) {}
EventLoop::~EventLoop() = default;

asio::io_context& EventLoop::context() { return state_->context; }

void EventLoop::on_signal(std::function<void(int)> handler) {
  state_->signal_handler = std::move(handler);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) state_->signals.add(number);
  state_->wait_for_signal();
}

void EventLoop::run(const std::function<void()>& end_of_turn) {
  end_of_turn();
  while (!state_->stopped) {
    state_->context.run_one();
    for (int i = 1; i < kMaxHandlersPerTurn && state_->context.poll_one() != 0; ++i) {
    }
    end_of_turn();
  }
}

void EventLoop::stop() { state_->stopped = true; }

void EventLoop::wake_at(policy::Instant at) {
  if (state_->wakes_at && *state_->wakes_at <= at) return;
  state_->wakes_at = at;
  state_->timer.expires_after(at - state_->clock.now());
  state_->timer.async_wait([state = state_.get()](const boost::system::error_code& error) {
    if (!error) state->wakes_at.reset();
  });
}

struct FdWatch::State {
  State(asio::io_context& context, int fd, Ownership how, FdEvents& events)
      : descriptor(context, fd), ownership(how), owner(&events) {}

  asio::posix::stream_descriptor descriptor;
  Ownership ownership;
  FdEvents* owner;  // null when the watch is gone
  bool waits_readable = false;
  bool waits_writable = false;
};

FdWatch::FdWatch(asio::io_context& context, int fd, Ownership ownership, FdEvents& owner) {
  try {
    state_ = std::make_shared<State>(context, fd, ownership, owner);
  } catch (...) {
    // The kernel takes no further descriptor into epoll; ours would be lost without an owner.
    if (ownership == Ownership::Owned) ::close(fd);
    throw;
  }
}

FdWatch::~FdWatch() {
  state_->owner = nullptr;
  boost::system::error_code ignored;
  if (state_->ownership == Ownership::Borrowed) {
    state_->descriptor.release();
  } else {
    state_->descriptor.close(ignored);
  }
}

void FdWatch::wait_readable() {
  if (state_->waits_readable) return;
  state_->waits_readable = true;
  state_->descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                                [state = state_](const boost::system::error_code&) {
                                  state->waits_readable = false;
                                  if (state->owner) state->owner->on_fd_readable();
                                });
}

void FdWatch::wait_writable() {
  if (state_->waits_writable) return;
  state_->waits_writable = true;
  state_->descriptor.async_wait(asio::posix::descriptor_base::wait_write,
                                [state = state_](const boost::system::error_code&) {
                                  state->waits_writable = false;
                                  if (state->owner) state->owner->on_fd_writable();
                                });
}

int FdWatch::fd() const { return state_->descriptor.native_handle(); }

}  // namespace turnstile::gateway
