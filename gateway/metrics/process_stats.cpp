#include "gateway/metrics/process_stats.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace turnstile::gateway {
namespace {

// Fields of /proc/self/stat after the program's name, counted from field 3 (proc(5)).
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

double boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  const std::vector<std::string> fields = stat_fields();
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (fields.size() > 21) {
    const auto number = [&](std::size_t field) { return std::stoull(fields[field - 3]); };
    stats.cpu_seconds = static_cast<double>(number(14) + number(15)) / ticks_per_second;
    stats.threads = number(20);
    stats.start_time_seconds =
        boot_time_seconds() + static_cast<double>(number(22)) / ticks_per_second;
    stats.virtual_bytes = number(23);
    stats.resident_bytes = number(24) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  // The folder is open while it is read, and lists itself.
  if (!error) stats.open_fds = static_cast<std::uint64_t>(std::distance(begin(fds), end(fds))) - 1;
  return stats;
}

}  // namespace turnstile::gateway
