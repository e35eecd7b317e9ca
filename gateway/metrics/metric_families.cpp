#include "gateway/metrics/metric_families.h"

#include <prometheus/text_serializer.h>

#include <cassert>
#include <map>

namespace turnstile::gateway {
namespace {

const MetricRow& row_of(MetricId id) { return metrics_table()[static_cast<std::size_t>(id)]; }

std::map<std::string, std::string> label_map(const MetricRow& row, MetricFamilies::Values values) {
  std::map<std::string, std::string> labels;
  std::size_t i = 0;
  for (const std::string_view value : values) {
    labels.emplace(row.labels[i++], value);
  }
  assert((i == row.labels.size() || row.labels[i].empty()) && "one value per label of the row");
  return labels;
}

template <typename T>
prometheus::Family<T>& family_of(void* family) {
  return *static_cast<prometheus::Family<T>*>(family);
}

}  // namespace

MetricFamilies::MetricFamilies() : overflow_histogram_({}) {
  for (const MetricRow& row : metrics_table()) {
    const std::string name(row.name);
    const std::string help(row.help);
    void*& family = families_[static_cast<std::size_t>(row.id)];
    switch (row.type) {
      case MetricType::Counter:
        family = &prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
        break;
      case MetricType::Gauge:
        family = &prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
        break;
      case MetricType::Histogram:
        family = &prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
        break;
    }
  }
  dropped_ = &counter(MetricId::SeriesDropped);
}

bool MetricFamilies::take_series() {
  if (series_ >= kMaxSeries) {
    dropped_->Increment();
    return false;
  }
  ++series_;
  return true;
}

prometheus::Counter& MetricFamilies::counter(MetricId id, Values values) {
  const MetricRow& row = row_of(id);
  assert(row.type == MetricType::Counter && "a counter in the table");
  if (!take_series()) return *dropped_;
  return family_of<prometheus::Counter>(families_[static_cast<std::size_t>(id)])
      .Add(label_map(row, values));
}

prometheus::Gauge& MetricFamilies::gauge(MetricId id, Values values) {
  const MetricRow& row = row_of(id);
  assert(row.type == MetricType::Gauge && "a gauge in the table");
  if (!take_series()) return overflow_gauge_;
  return family_of<prometheus::Gauge>(families_[static_cast<std::size_t>(id)])
      .Add(label_map(row, values));
}

prometheus::Histogram& MetricFamilies::histogram(MetricId id, Values values) {
  const MetricRow& row = row_of(id);
  assert(row.type == MetricType::Histogram && "a histogram in the table");
  if (!take_series()) return overflow_histogram_;
  return family_of<prometheus::Histogram>(families_[static_cast<std::size_t>(id)])
      .Add(label_map(row, values), std::vector<double>(row.buckets.begin(), row.buckets.end()));
}

std::string MetricFamilies::text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace turnstile::gateway
