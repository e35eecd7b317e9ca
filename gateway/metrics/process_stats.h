// process_stats.h: what the kernel says about this process (/proc/self).
//
// Thread: any. Cost: three small files and a folder, for a scrape.
// Tests:  tests/gateway/metrics_test.cpp.
#pragma once

#include <cstdint>

namespace turnstile::gateway {

struct ProcessStats {
  double cpu_seconds = 0;
  double start_time_seconds = 0;  // since 1970
  std::uint64_t resident_bytes = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t open_fds = 0;  // without the one that the count itself takes
  std::uint64_t threads = 0;
};

ProcessStats read_process_stats();  // zeros where /proc does not say

}  // namespace turnstile::gateway
