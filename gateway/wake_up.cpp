#include "gateway/wake_up.h"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace turnstile::gateway {

WakeUp::WakeUp() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

WakeUp::~WakeUp() { ::close(fd_); }

void WakeUp::signal() {
  const std::uint64_t one = 1;
  // The only failure of a non-blocking eventfd is a counter at its maximum, which is signalled.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

void WakeUp::wait(std::chrono::milliseconds limit) {
  pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
  ::poll(&entry, 1, static_cast<int>(limit.count()));
  clear();
}

void WakeUp::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read_bytes = ::read(fd_, &count, sizeof count);
}

}  // namespace turnstile::gateway
