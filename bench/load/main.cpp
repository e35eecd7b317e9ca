// turnstile-load: drives a server with many streams and reports what they saw.
// Exit codes: 0 done, 1 the client was the limit (the run is invalid), 2 wrong usage, 3 the
// environment lacks something.
//
// SIGINT and SIGTERM end the run: open requests are left, and what was seen is reported.
#include <atomic>
#include <csignal>
#include <fstream>
#include <iostream>

#include "bench/load/load_loop.h"
#include "bench/load/options.h"
#include "bench/load/random_stream.h"
#include "bench/load/report.h"
#include "bench/load/request_bytes.h"

namespace turnstile::load {
namespace {

// Warm-up requests have numbers of their own, so that none of their prompts is measured later.
constexpr std::uint64_t kWarmupNumbers = std::uint64_t{1} << 40;

// The times at which clients leave are drawn from a stream of their own.
constexpr std::uint64_t kLeaveStream = 0x1ea7e;

std::atomic<bool> stop_asked{false};

void ask_to_stop(int) { stop_asked = true; }

LoadPlan make_plan(const Options& options, std::uint64_t requests, std::uint64_t first_number) {
  LoadPlan plan;
  plan.streams = options.streams;
  plan.requests = requests;
  plan.timeout = options.timeout;
  plan.pause_after_refusal = options.pause_after_refusal;
  plan.bytes_of = [&options, first_number](std::uint64_t sequence) {
    return request_bytes(options, first_number + sequence);
  };
  return plan;
}

bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return true;
  std::cerr << "turnstile-load: cannot write " << path << "; name a writable file.\n";
  return false;
}

int run(const Options& options) {
  const auto address = ServerAddress::resolve(options.host, options.port);
  if (!address) {
    std::cerr << "turnstile-load: cannot resolve " << options.host << "; check --url.\n";
    return 3;
  }
  if (options.warmup_requests > 0) {
    const LoadPlan plan = make_plan(options, options.warmup_requests, kWarmupNumbers);
    LoadLoop warmup(*address, plan);
    if (warmup.is_ready()) warmup.run();
  }
  LoadPlan plan = make_plan(options, options.requests, 0);
  if (options.rate_per_s) {
    plan.schedule = open_loop_schedule(options.arrival, *options.rate_per_s, options.requests,
                                       options.seed);
  }
  if (options.leave_after) {
    plan.leave_after = [&options](std::uint64_t sequence) -> Time {
      const auto [low, high] = *options.leave_after;
      RandomStream random(options.seed ^ kLeaveStream, sequence);
      return low + std::chrono::duration_cast<Time>((high - low) * random.next_unit());
    };
  }
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);
  plan.stop = &stop_asked;
  LoadLoop loop(*address, plan);
  if (!loop.is_ready()) {
    std::cerr << "turnstile-load: no descriptor is left for epoll; raise 'ulimit -n'.\n";
    return 3;
  }
  const LoadResult result = loop.run();
  const Report report = make_report(options, result);
  std::cout << report.text;
  if (!write_file(options.report_file, report.json)) return 3;
  if (!options.records_file.empty() &&
      !write_file(options.records_file, record_lines(result))) {
    return 3;
  }
  return report.is_valid ? 0 : 1;
}

}  // namespace
}  // namespace turnstile::load

int main(int argc, char** argv) {
  const auto parsed = turnstile::load::parse_options(argc, argv);
  return parsed.exit_code ? *parsed.exit_code : turnstile::load::run(parsed.options);
}
