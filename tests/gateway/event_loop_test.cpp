#include "gateway/event_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "gateway/clock.h"
#include "tests/support/manual_clock.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

// One end is watched, the other belongs to the test.
class Watched final : private FdEvents {
 public:
  explicit Watched(EventLoop& loop) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    watch_ = std::make_unique<FdWatch>(loop, ends_[0], FdWatch::Ownership::Owned,
                                       static_cast<FdEvents&>(*this));
  }
  ~Watched() {
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void send() { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void fill() {
    while (::write(ends_[0], "x", 1) == 1) {
    }
  }
  void empty_peer() {
    char byte = 0;
    while (::read(ends_[1], &byte, 1) == 1) {
    }
  }
  void end_peer() { ::close(std::exchange(ends_[1], -1)); }
  void unwatch() { watch_.reset(); }
  FdWatch& watch() { return *watch_; }

  std::function<void()> then = [] {};
  int told = 0;
  int told_writable = 0;
  bool has_ended = false;

 private:
  void on_fd_writable() override { ++told_writable; }
  void on_fd_readable(bool is_end) override {
    ++told;
    has_ended = is_end;
    then();
  }

  std::array<int, 2> ends_{-1, -1};
  std::unique_ptr<FdWatch> watch_;
};

TEST(EventLoop, TellsEachChangeOnceAndAgainWhenAsked) {
  const ManualClock clock;
  EventLoop loop(clock);
  Watched watched(loop);
  loop.poll();
  EXPECT_EQ(watched.told, 0);
  watched.send();
  loop.poll();
  loop.poll();
  EXPECT_EQ(watched.told, 1) << "nobody has read, but nothing is new";
  watched.watch().tell_again();
  loop.poll();
  EXPECT_EQ(watched.told, 2);
  EXPECT_FALSE(watched.has_ended);
  watched.end_peer();
  loop.poll();
  EXPECT_EQ(watched.told, 3);
  EXPECT_TRUE(watched.has_ended);
}

// A client that reads its answer is no reason for a turn; one that makes room for the rest is.
TEST(EventLoop, RoomToWriteIsToldToWhoWaitsForIt) {
  const ManualClock clock;
  EventLoop loop(clock);
  Watched watched(loop);
  watched.fill();
  watched.empty_peer();
  loop.poll();
  EXPECT_EQ(watched.told_writable, 0);

  watched.fill();
  watched.watch().watch_writable();
  loop.poll();
  EXPECT_EQ(watched.told_writable, 0) << "there is none";
  watched.empty_peer();
  loop.poll();
  EXPECT_EQ(watched.told_writable, 1);
  watched.watch().tell_again();
  loop.poll();
  EXPECT_EQ(watched.told_writable, 2) << "what was asked for goes on";

  Watched late(loop);
  late.watch().watch_writable();
  loop.poll();
  EXPECT_EQ(late.told_writable, 1) << "the room that was there already";
}

// Both are ready in one look; whoever is told first ends the other, or itself.
TEST(EventLoop, AWatchThatIsGoneIsNotTold) {
  const ManualClock clock;
  EventLoop loop(clock);
  Watched a(loop);
  Watched b(loop);
  a.then = [&] { b.unwatch(); };
  b.then = [&] { a.unwatch(); };
  a.send();
  b.send();
  loop.poll();
  EXPECT_EQ(a.told + b.told, 1);

  Watched itself(loop);
  itself.then = [&] { itself.unwatch(); };
  itself.send();
  itself.end_peer();
  loop.poll();
  EXPECT_EQ(itself.told, 1);
}

// More rounds than the loop makes without a look at the descriptors; a handler that was left behind
// would make it sleep for ever.
TEST(EventLoop, HandlersThatDecisionsPostAreAllRun) {
  const ManualClock clock;
  EventLoop loop(clock);
  int handlers = 0;
  loop.run([&] {
    if (handlers >= 20) return loop.stop();
    boost::asio::post(loop.context(), [&] { ++handlers; });
  });
  EXPECT_GE(handlers, 20);
}

TEST(EventLoop, WakesAtTheEarliestTimeOfTheTurn) {
  const SystemClock clock;
  EventLoop loop(clock);
  std::vector<policy::Instant> turns;
  loop.run([&] {
    turns.push_back(clock.now());
    if (turns.size() == 2) return loop.stop();
    loop.wake_at(turns[0] + 1h);
    loop.wake_at(turns[0] + 2ms);
    loop.wake_at(turns[0] + 1min);
  });
  EXPECT_GE(turns[1] - turns[0], 2ms);
  EXPECT_LT(turns[1] - turns[0], 30s);
}

TEST(EventLoop, SignalsAreCallsWhileItLives) {
  std::vector<int> signals;
  {
    const ManualClock clock;
    EventLoop loop(clock);
    loop.on_signal([&](int number) { signals.push_back(number); });
    std::raise(SIGHUP);
    std::raise(SIGTERM);
    std::raise(SIGQUIT);
    EXPECT_TRUE(signals.empty()) << "not in the handler";
    loop.poll();
  }
  EXPECT_EQ(signals, (std::vector{SIGHUP, SIGTERM, SIGQUIT}));
  struct sigaction now {};
  ::sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace turnstile::gateway
