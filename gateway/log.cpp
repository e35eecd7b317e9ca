#include "gateway/log.h"

#include <unistd.h>

#include <string>

#include "gateway/clock.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {
namespace {

void write_line(std::string_view level, std::string_view sentence) {
  std::string line = timestamp(SystemClock().wall());
  line.append(" ").append(level).append(": ").append(sentence).append("\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void log_info(std::string_view sentence) { write_line("info", sentence); }
void log_warning(std::string_view sentence) { write_line("warning", sentence); }
void log_error(std::string_view sentence) { write_line("error", sentence); }

}  // namespace turnstile::gateway
