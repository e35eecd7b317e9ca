#include "gateway/log.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>

#include "gateway/clock.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {
namespace {

// Standard error for one line. Its flags are shared with whoever started this program, so a pipe
// or terminal is opened once more, to have flags of its own.
class StandardError {
 public:
  StandardError() {
    struct stat status {};
    if (::fstat(STDERR_FILENO, &status) != 0) return;
    if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return;
    own_ = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ~StandardError() {
    if (own_ >= 0) ::close(own_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  // How much of the text it takes now.
  std::size_t write(std::string_view text) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = write_some(text.substr(done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    return done;
  }

 private:
  ssize_t write_some(std::string_view text) const {
    const int descriptor = own_ >= 0 ? own_ : STDERR_FILENO;
    const ssize_t sent = ::send(descriptor, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK) return sent;
    pollfd room{descriptor, POLLOUT, 0};
    if (::poll(&room, 1, 0) <= 0 || (room.revents & POLLOUT) == 0) return -1;
    // As much as a pipe with room has room for; a terminal promises less.
    const std::size_t most = own_ < 0 && ::isatty(descriptor) == 1 ? 1 : PIPE_BUF;
    return ::write(descriptor, text.data(), std::min(text.size(), most));
  }

  int own_ = -1;
};

struct LogState {
  std::mutex mutex;
  std::uint64_t dropped = 0;  // lines since the last one that was taken
  bool is_in_line = false;    // part of a line was taken
};

std::string line_of(std::string_view level, std::string_view sentence) {
  std::string line = timestamp(SystemClock().wall());
  line.append(" ").append(level).append(": ").append(sentence).append("\n");
  return line;
}

void write_line(std::string_view level, std::string_view sentence) {
  static LogState state;
  const std::lock_guard lock(state.mutex);
  const StandardError standard_error;
  const auto write = [&](std::string_view line) {
    if (state.is_in_line && standard_error.write("\n") == 1) state.is_in_line = false;
    const std::size_t taken = state.is_in_line ? 0 : standard_error.write(line);
    if (taken > 0) state.is_in_line = taken < line.size();
    return taken + 1 >= line.size();  // a line feed that is missing comes before the next line
  };
  if (state.dropped > 0 && write(line_of("warning", "lines that nobody read are missing here: " +
                                                        std::to_string(state.dropped)))) {
    state.dropped = 0;
  }
  if (state.dropped > 0 || !write(line_of(level, sentence))) ++state.dropped;
}

}  // namespace

void log_info(std::string_view sentence) { write_line("info", sentence); }
void log_warning(std::string_view sentence) { write_line("warning", sentence); }
void log_error(std::string_view sentence) { write_line("error", sentence); }

}  // namespace turnstile::gateway
