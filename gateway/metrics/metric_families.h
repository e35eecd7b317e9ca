// metric_families.h: the metrics table as families of prometheus-cpp, with a bound on series.
//
// A handle is looked up once per label set and stays valid. Beyond kMaxSeries a new label set gets
// the handle of the dropped counter, so that a mistake in labels costs numbers and not memory.
//
// Thread: I/O.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "gateway/metrics/metrics_table.h"

namespace turnstile::gateway {

class MetricFamilies {
 public:
  static constexpr std::size_t kMaxSeries = 10'000;

  MetricFamilies();

  // Values in the order of the row's labels.
  using Values = std::initializer_list<std::string_view>;
  prometheus::Counter& counter(MetricId id, Values values = {});
  prometheus::Gauge& gauge(MetricId id, Values values = {});
  prometheus::Histogram& histogram(MetricId id, Values values = {});

  std::string text() const;

 private:
  bool take_series();

  prometheus::Registry registry_;
  std::array<void*, kMetricCount> families_{};  // Family<T>* of the row's type
  std::size_t series_ = 0;
  prometheus::Counter* dropped_ = nullptr;
  prometheus::Gauge overflow_gauge_;
  prometheus::Histogram overflow_histogram_;
};

}  // namespace turnstile::gateway
