// report.h: what a run says, as JSON for programs and as a few lines for people.
#pragma once

#include <string>

#include "bench/load/load_loop.h"
#include "bench/load/options.h"
#include "bench/load/verdict.h"

namespace turnstile::load {

// Schema turnstile.load/1: `load`, `verdict`, `outcomes`, `latency` (milliseconds), `throughput`.
// A figure that was not measured is absent.
struct Report {
  std::string json;
  std::string text;
  bool is_valid = false;  // see verdict.h
};
Report make_report(const Options& options, const LoadResult& result);

// One JSON object a line and request; times in nanoseconds since the start of the run.
std::string record_lines(const LoadResult& result);

}  // namespace turnstile::load
