// wake_up.h: an eventfd with which one thread wakes another that sleeps in poll() or epoll.
//
// Signals add up: any number of them before clear() wake the sleeper once.
//
// Thread: signal() from any thread; wait() and clear() by the one that sleeps.
#pragma once

#include <chrono>

namespace turnstile::gateway {

class WakeUp {
 public:
  WakeUp();  // throws std::system_error when the process has no descriptor left
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void signal();
  // Sleeps until signalled or for `limit`; clears the signal.
  void wait(std::chrono::milliseconds limit);
  void clear();

  int fd() const { return fd_; }  // readable while signalled

 private:
  int fd_;
};

}  // namespace turnstile::gateway
