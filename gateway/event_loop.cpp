#include "gateway/event_loop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>

#include "gateway/clock.h"

namespace turnstile::gateway {

namespace asio = boost::asio;

namespace {

// One I/O thread: Asio may leave out the locks around its handler queue.
constexpr int kConcurrency = 1;
// Handlers of one turn. Under load there is always one more; decisions must not wait for the last.
constexpr int kMaxHandlersPerTurn = 256;
// Turns without a look at the descriptors, while handlers and decisions give each other work.
constexpr int kMaxTurnsWithoutLook = 4;
constexpr std::size_t kMaxReadyPerLook = 256;

constexpr std::uint32_t kEdges = EPOLLIN | EPOLLRDHUP | EPOLLET;

constexpr std::array kSignals{SIGTERM, SIGINT, SIGQUIT, SIGHUP};

// Where the signal handler writes the signal's number; -1: nobody watches signals.
std::atomic<int> signal_pipe{-1};

void on_system_signal(int number) {
  const int saved_errno = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const auto written = ::write(signal_pipe.load(), &byte, 1);
  errno = saved_errno;
}

[[noreturn]] void throw_system_error(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The signals of this process as bytes of a pipe.
class SignalPipe final : private FdEvents {
 public:
  SignalPipe(EventLoop& loop, std::function<void(int)> handler)
      : handler_(std::move(handler)),
        ends_(open_pipe()),
        watch_(loop, ends_[0], FdWatch::Ownership::Owned, static_cast<FdEvents&>(*this)) {
    assert(signal_pipe.load() == -1 && "one loop watches signals");
    signal_pipe.store(ends_[1]);
    set_all(&on_system_signal);
  }
  ~SignalPipe() {
    set_all(SIG_DFL);
    signal_pipe.store(-1);
    ::close(ends_[1]);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

 private:
  static std::array<int, 2> open_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) throw_system_error("pipe");
    return ends;
  }
  static void set_all(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    for (const int number : kSignals) ::sigaction(number, &action, nullptr);
  }
  void on_fd_readable(bool) override {
    unsigned char number = 0;
    while (::read(ends_[0], &number, 1) == 1) handler_(number);
  }

  std::function<void(int)> handler_;
  std::array<int, 2> ends_;
  FdWatch watch_;
};

}  // namespace

struct EventLoop::State {
  explicit State(const Clock& used_clock)
      : clock(used_clock), epoll(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll < 0) throw_system_error("epoll_create1");
  }
  ~State() { ::close(epoll); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int run_handlers();
  int wait_ms() const;
  void look(int limit_ms);
  void control(int operation, const FdWatch& watch) const;
  void forget(const FdWatch& watch);

  const Clock& clock;
  const int epoll;
  asio::io_context context{kConcurrency};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::array<epoll_event, kMaxReadyPerLook> ready{};
  std::span<epoll_event> untold;  // of `ready`
  const FdWatch* told = nullptr;  // at the moment
  std::optional<policy::Instant> wakes_at;
  std::unique_ptr<SignalPipe> signals;
  bool stopped = false;
};

EventLoop::EventLoop(const Clock& clock) : state_(std::make_unique<State>(clock)) {}

EventLoop::~EventLoop() { state_->signals.reset(); }

asio::io_context& EventLoop::context() { return state_->context; }

void EventLoop::on_signal(std::function<void(int)> handler) {
  state_->signals = std::make_unique<SignalPipe>(*this, std::move(handler));
}

void EventLoop::run(const std::function<void()>& end_of_turn) {
  while (!state_->stopped) {
    state_->wakes_at.reset();
    end_of_turn();
    int turns = 0;
    while (turns < kMaxTurnsWithoutLook && !state_->stopped && state_->run_handlers() > 0) {
      ++turns;
      end_of_turn();
    }
    if (state_->stopped) break;
    state_->look(turns == kMaxTurnsWithoutLook ? 0 : state_->wait_ms());
  }
}

void EventLoop::stop() { state_->stopped = true; }

void EventLoop::wake_at(policy::Instant at) {
  if (!state_->wakes_at || at < *state_->wakes_at) state_->wakes_at = at;
}

void EventLoop::poll() {
  state_->look(0);
  state_->context.poll();
}

int EventLoop::State::run_handlers() {
  int count = 0;
  while (count < kMaxHandlersPerTurn && context.poll_one() != 0) ++count;
  return count;
}

// -1: there is nothing to wake up for.
int EventLoop::State::wait_ms() const {
  using std::chrono::milliseconds;
  if (!wakes_at) return -1;
  const auto rest = std::chrono::ceil<milliseconds>(*wakes_at - clock.now());
  return static_cast<int>(std::clamp(rest, milliseconds(0), milliseconds(60'000)).count());
}

void EventLoop::State::look(int limit_ms) {
  const int count =
      ::epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), limit_ms);
  untold = std::span(ready).first(static_cast<std::size_t>(std::max(count, 0)));
  while (!untold.empty()) {
    const epoll_event event = untold.front();
    untold = untold.subspan(1);
    if (event.data.ptr == nullptr) continue;
    told = static_cast<const FdWatch*>(event.data.ptr);
    constexpr std::uint32_t kEnds = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    const bool is_end = (event.events & kEnds) != 0;
    if ((event.events & EPOLLOUT) != 0 || is_end) told->owner_.on_fd_writable();
    if (told != nullptr && ((event.events & EPOLLIN) != 0 || is_end)) {
      told->owner_.on_fd_readable(is_end);
    }
  }
  told = nullptr;
}

void EventLoop::State::control(int operation, const FdWatch& watch) const {
  epoll_event event{};
  event.events = watch.tells_writable_ ? kEdges | EPOLLOUT : kEdges;
  event.data.ptr = const_cast<FdWatch*>(&watch);
  if (::epoll_ctl(epoll, operation, watch.fd(), &event) != 0) throw_system_error("epoll_ctl");
}

// An owner that is told may end itself, and others that are still to be told.
void EventLoop::State::forget(const FdWatch& watch) {
  if (told == &watch) told = nullptr;
  for (epoll_event& event : untold) {
    if (event.data.ptr == &watch) event.data.ptr = nullptr;
  }
}

FdWatch::FdWatch(EventLoop& loop, int fd, Ownership ownership, FdEvents& owner)
    : loop_(*loop.state_), fd_(fd), ownership_(ownership), owner_(owner) {
  try {
    loop_.control(EPOLL_CTL_ADD, *this);
  } catch (...) {
    if (ownership_ == Ownership::Owned) ::close(fd_);
    throw;
  }
}

FdWatch::~FdWatch() {
  loop_.forget(*this);
  ::epoll_ctl(loop_.epoll, EPOLL_CTL_DEL, fd_, nullptr);
  if (ownership_ == Ownership::Owned) ::close(fd_);
}

void FdWatch::tell_again() { loop_.control(EPOLL_CTL_MOD, *this); }

void FdWatch::watch_writable() {
  if (std::exchange(tells_writable_, true)) return;
  loop_.control(EPOLL_CTL_MOD, *this);
}

}  // namespace turnstile::gateway
