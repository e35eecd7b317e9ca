#include "gateway/metrics/metrics.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <unordered_map>
#include <utility>

#include "gateway/build_identity.h"
#include "gateway/records/coalesce.h"
#include "gateway/metrics/metric_families.h"
#include "gateway/metrics/process_stats.h"

namespace turnstile::gateway {
namespace {

constexpr std::size_t kMaxTeams = 200;
constexpr std::size_t kMaxCodes = 64;  // about 43 of the interface, 11 results and reasons

// The values of one label as small numbers: a closed set, "" for not yet known, `other` for the
// rest.
class LabelSet {
 public:
  explicit LabelSet(const std::vector<std::string>& names, std::size_t most) {
    add("");
    add("other");
    for (const std::string& name : names) {
      if (names_.size() < most + 2) add(name);
    }
  }

  std::size_t index_of(std::string_view name) const {
    const auto found = indices_.find(name);
    return found == indices_.end() ? 1 : found->second;
  }
  // Adds the name when there is room.
  std::size_t index_or_add(std::string_view name, std::size_t most) {
    const auto found = indices_.find(name);
    if (found != indices_.end()) return found->second;
    if (names_.size() >= most + 2) return 1;
    add(std::string(name));
    return names_.size() - 1;
  }
  const std::string& name(std::size_t index) const { return names_[index]; }
  std::size_t size() const { return names_.size(); }

 private:
  void add(const std::string& name) {
    if (indices_.emplace(name, names_.size()).second) names_.push_back(name);
  }

  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> indices_;
};

double to_seconds(policy::Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

}  // namespace

struct Metrics::State {
  explicit State(const MetricsLabels& labels)
      : teams(labels.teams, kMaxTeams),
        classes(labels.classes, labels.classes.size()),
        codes({}, kMaxCodes),
        model(labels.model_name),
        queued(classes.size()),
        running(teams.size()) {
    for (std::size_t i = 0; i < kMetricCount; ++i) make_fixed(metrics_table()[i]);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      queued_gauges.push_back(&families.gauge(MetricId::RequestsQueued, {classes.name(i)}));
      queue_wait.push_back(&families.histogram(MetricId::QueueWait, {classes.name(i)}));
    }
    running_gauges.resize(teams.size());
    for (const std::string& team : labels.teams) running_gauge(teams.index_of(team));
    families.gauge(MetricId::BuildInfo, {build_version(), build_commit()}).Set(1);
    for (const char* reason : {"stop", "length", "abort", "error"}) request_success(reason);
    for (const char* kind : {"prompt", "decode"}) labelled(MetricId::EngineRows, kind);
    for (const MetricId id : {MetricId::VllmSpecDrafts, MetricId::VllmSpecDraftTokens,
                              MetricId::VllmSpecAcceptedTokens}) {
      counters[static_cast<std::size_t>(id)] =
          &families.counter(id, {model, "0", labels.speculation});
    }
  }

  MetricFamilies families;
  LabelSet teams;
  LabelSet classes;
  LabelSet codes;
  std::string model;

  // The balance: arrived requests that have not ended.
  std::vector<std::int64_t> queued;   // by class
  std::vector<std::int64_t> running;  // by team
  std::vector<prometheus::Gauge*> queued_gauges;
  std::vector<prometheus::Gauge*> running_gauges;
  std::vector<prometheus::Histogram*> queue_wait;

  // Series without labels, or with the model's alone, by MetricId.
  std::array<prometheus::Counter*, kMetricCount> counters{};
  std::array<prometheus::Gauge*, kMetricCount> gauges{};
  std::array<prometheus::Histogram*, kMetricCount> histograms{};

  // Series with labels: the key packs the metric and small numbers of its labels.
  std::unordered_map<std::uint64_t, prometheus::Counter*> by_labels;
  std::unordered_map<std::string, std::pair<prometheus::Gauge*, prometheus::Gauge*>, TextHash,
                     std::equal_to<>>
      meters;
  prometheus::Gauge* revision = nullptr;

  void make_fixed(const MetricRow& row);
  prometheus::Counter& count(MetricId id) { return *counters[static_cast<std::size_t>(id)]; }
  prometheus::Gauge& gauge(MetricId id) { return *gauges[static_cast<std::size_t>(id)]; }
  void observe(MetricId id, double value) {
    histograms[static_cast<std::size_t>(id)]->Observe(value);
  }
  void observe_if(MetricId id, const std::optional<policy::Duration>& duration) {
    if (duration) observe(id, to_seconds(*duration));
  }

  prometheus::Gauge& running_gauge(std::size_t team) {
    if (running_gauges[team] == nullptr) {
      running_gauges[team] = &families.gauge(MetricId::RequestsRunning, {teams.name(team)});
    }
    return *running_gauges[team];
  }

  template <typename Make>
  prometheus::Counter& cached(MetricId id, std::size_t a, std::size_t b, std::size_t c,
                              const Make& make) {
    const std::uint64_t key = static_cast<std::uint64_t>(id) << 56 | a << 32 | b << 16 | c;
    prometheus::Counter*& slot = by_labels[key];
    if (slot == nullptr) slot = &make();
    return *slot;
  }
  prometheus::Counter& labelled(MetricId id, std::string_view value) {
    const std::size_t code = codes.index_or_add(value, kMaxCodes);
    return cached(id, code, 0, 0, [&]() -> prometheus::Counter& {
      return families.counter(id, {codes.name(code)});
    });
  }
  prometheus::Counter& request_success(std::string_view reason) {
    const std::size_t code = codes.index_or_add(reason, kMaxCodes);
    return cached(MetricId::VllmRequestSuccess, code, 0, 0, [&]() -> prometheus::Counter& {
      return families.counter(MetricId::VllmRequestSuccess, {model, "0", codes.name(code)});
    });
  }

  // Where the request is counted now.
  std::int64_t& place_of(const RequestRecord& record) {
    switch (record.phase) {
      case RequestPhase::Arrived: return queued[0];
      case RequestPhase::Queued:
      case RequestPhase::Paused: return queued[classes.index_of(record.service_class)];
      case RequestPhase::Running: return running[teams.index_of(record.team)];
      case RequestPhase::New:
      case RequestPhase::Ended: break;
    }
    assert(false && "an arrived request that has not ended");
    return queued[0];
  }
  void move(RequestRecord& record, RequestPhase phase) {
    --place_of(record);
    record.phase = phase;
    ++place_of(record);
  }

  void observe_finished(const RequestRecord& record);
  void set_gauges();
};

void Metrics::State::make_fixed(const MetricRow& row) {
  const auto index = static_cast<std::size_t>(row.id);
  const bool has_no_labels = row.labels[0].empty();
  const bool has_model_only = row.labels[0] == "model_name" && row.labels[2].empty();
  if (!has_no_labels && !has_model_only) return;
  const MetricFamilies::Values model_values{model, "0"};
  const MetricFamilies::Values no_values{};
  const MetricFamilies::Values values = has_model_only ? model_values : no_values;
  switch (row.type) {
    case MetricType::Counter: counters[index] = &families.counter(row.id, values); break;
    case MetricType::Gauge: gauges[index] = &families.gauge(row.id, values); break;
    case MetricType::Histogram: histograms[index] = &families.histogram(row.id, values); break;
  }
}

Metrics::Metrics(const MetricsLabels& labels) : state_(std::make_unique<State>(labels)) {}
Metrics::~Metrics() = default;

void Metrics::on_arrived(RequestRecord& record) {
  assert(record.phase == RequestPhase::New && "a request arrives once");
  record.phase = RequestPhase::Arrived;
  ++state_->place_of(record);
  state_->count(MetricId::RequestsArrived).Increment();
}

void Metrics::on_queued(RequestRecord& record) {
  assert(record.phase == RequestPhase::Arrived && "queued after arrival");
  state_->move(record, RequestPhase::Queued);
  if (record.clamped_by.empty()) return;
  const std::size_t service_class = state_->classes.index_of(record.service_class);
  state_->cached(MetricId::Clamps, service_class, 0, 0,
                 [&]() -> prometheus::Counter& {
                   return state_->families.counter(MetricId::Clamps,
                                                   {state_->classes.name(service_class)});
                 })
      .Increment();
}

void Metrics::on_running(RequestRecord& record) {
  assert((record.phase == RequestPhase::Queued || record.phase == RequestPhase::Arrived) &&
         "a permit after arrival");
  state_->move(record, RequestPhase::Running);
}

void Metrics::on_paused(RequestRecord& record) {
  assert(record.phase == RequestPhase::Running && "only what runs is paused");
  state_->move(record, RequestPhase::Paused);
}

void Metrics::on_resumed(RequestRecord& record) {
  assert(record.phase == RequestPhase::Paused && "only what is paused goes on");
  state_->move(record, RequestPhase::Running);
}

void Metrics::on_verdict(const RequestRecord& record, Verdict verdict, std::string_view code) {
  State& state = *state_;
  const std::size_t team = state.teams.index_of(record.team);
  const std::size_t service_class = state.classes.index_of(record.service_class);
  const std::size_t code_index = state.codes.index_or_add(code, kMaxCodes);
  const std::string& team_name = state.teams.name(team);
  const std::string& class_name = state.classes.name(service_class);
  const std::string& code_name = state.codes.name(code_index);
  const bool is_refused = verdict == Verdict::Refused;
  assert(is_refused != code.empty() && "a refusal has a code");
  state.cached(MetricId::AdmissionDecisions, team, service_class, code_index,
               [&]() -> prometheus::Counter& {
                 return state.families.counter(
                     MetricId::AdmissionDecisions,
                     {team_name, class_name, is_refused ? "refused" : "admitted", code_name});
               })
      .Increment();
  if (!is_refused) return;
  state.cached(MetricId::AdmissionRejected, team, service_class, code_index,
               [&]() -> prometheus::Counter& {
                 return state.families.counter(MetricId::AdmissionRejected,
                                               {team_name, class_name, code_name});
               })
      .Increment();
}

void Metrics::on_finished(RequestRecord& record) {
  State& state = *state_;
  --state.place_of(record);
  record.phase = RequestPhase::Ended;
  const std::size_t team = state.teams.index_of(record.team);
  const std::size_t service_class = state.classes.index_of(record.service_class);
  state.cached(MetricId::RequestsFinished, team, service_class,
               static_cast<std::size_t>(record.outcome), [&]() -> prometheus::Counter& {
                 return state.families.counter(
                     MetricId::RequestsFinished,
                     {state.teams.name(team), state.classes.name(service_class),
                      to_string(record.outcome)});
               })
      .Increment();
  if (const auto wait = record.queue_time(); wait && record.outcome != RequestOutcome::Refused) {
    state.queue_wait[service_class]->Observe(to_seconds(*wait));
  }
  if (record.dispatched) state.observe_finished(record);
}

void Metrics::State::observe_finished(const RequestRecord& record) {
  using enum MetricId;
  std::string_view reason = record.finish_reason == "length" ? "length" : "stop";
  if (record.outcome == RequestOutcome::Fault) reason = "error";
  else if (record.outcome != RequestOutcome::Completed) reason = "abort";
  request_success(reason).Increment();
  count(VllmPromptTokens).Increment(static_cast<double>(record.prompt_tokens));
  count(VllmPromptTokensCached).Increment(static_cast<double>(record.cached_tokens));
  count(VllmGenerationTokens).Increment(static_cast<double>(record.completion_tokens));
  observe(VllmRequestPromptTokens, static_cast<double>(record.prompt_tokens));
  observe(VllmRequestGenerationTokens, static_cast<double>(record.completion_tokens));
  observe(VllmRequestMaxTokens, static_cast<double>(record.max_tokens));
  observe(VllmRequestN, record.choices);
  observe_if(VllmTimeToFirstToken, record.time_to_first_token());
  observe_if(VllmTimePerOutputToken, record.time_per_output_token());
  observe(VllmEndToEndLatency, to_seconds(record.total_time()));
  observe_if(VllmQueueTime, record.queue_time());
  observe_if(VllmPrefillTime, record.prefill_time());
  observe_if(VllmDecodeTime, record.decode_time());
  if (record.last_token) {
    observe(VllmInferenceTime, to_seconds(*record.last_token - *record.dispatched));
  }
}

void Metrics::on_auth_failure() { state_->count(MetricId::AuthFailures).Increment(); }

void Metrics::on_invalid(std::string_view code) {
  state_->labelled(MetricId::InvalidRequests, code).Increment();
}

void Metrics::on_unknown_field() { state_->count(MetricId::UnknownFields).Increment(); }

void Metrics::on_token_gap(policy::Duration gap) {
  state_->observe(MetricId::VllmInterTokenLatency, to_seconds(gap));
}

void Metrics::on_step(const engine::StepStats& stats, policy::Duration step_time) {
  using enum MetricId;
  State& state = *state_;
  state.count(EngineSteps).Increment();
  state.observe(EngineStepSeconds, to_seconds(step_time));
  state.observe(VllmIterationTokens, stats.rows);
  state.labelled(EngineRows, "prompt").Increment(stats.prompt_rows);
  state.labelled(EngineRows, "decode").Increment(stats.rows - stats.prompt_rows);
  state.count(VllmPreemptions).Increment(stats.preemptions);
  state.count(VllmPrefixCacheQueries).Increment(stats.cache_query_tokens);
  state.count(VllmPrefixCacheHits).Increment(stats.cache_hit_tokens);
  state.count(VllmCacheHitTokens).Increment(stats.cache_hit_tokens);
  state.count(VllmSpecDrafts).Increment(stats.drafts);
  state.count(VllmSpecDraftTokens).Increment(stats.draft_tokens);
  state.count(VllmSpecAcceptedTokens).Increment(stats.accepted_tokens);
  state.gauge(EngineStepBase).Set(stats.step_base_ms / 1e3);
  state.gauge(EngineStepRow).Set(stats.step_row_ms / 1e3);
  state.gauge(EngineStepKvGib).Set(stats.step_kv_byte_ms * 0x1p30 / 1e3);
  if (stats.total_blocks > 0) {
    const auto used = static_cast<double>(stats.total_blocks - stats.free_blocks);
    state.gauge(VllmKvCacheUsage).Set(used / static_cast<double>(stats.total_blocks));
  }
}

void Metrics::on_connection_opened() {
  state_->count(MetricId::ConnectionsOpened).Increment();
  state_->gauge(MetricId::Connections).Increment();
}

void Metrics::on_connection_closed() { state_->gauge(MetricId::Connections).Decrement(); }

void Metrics::on_connection_refused() { state_->count(MetricId::ConnectionsRefused).Increment(); }

void Metrics::on_tls_handshake(bool ok) {
  state_->labelled(MetricId::TlsHandshakes, ok ? "ok" : "failed").Increment();
}

void Metrics::on_policy_reload(std::string_view result) {
  state_->labelled(MetricId::PolicyReload, result).Increment();
}

void Metrics::on_key_reload(std::string_view result) {
  state_->labelled(MetricId::KeyReload, result).Increment();
}

void Metrics::set_key_file_errors(std::size_t errors) {
  state_->gauge(MetricId::KeyFileErrors).Set(static_cast<double>(errors));
}

void Metrics::set_policy_revision(std::string_view revision) {
  if (state_->revision != nullptr) state_->revision->Set(0);
  state_->revision = &state_->families.gauge(MetricId::PolicyRevision, {revision});
  state_->revision->Set(1);
}

void Metrics::set_meters(std::span<const policy::MeterView> meters) {
  for (const policy::MeterView& meter : meters) {
    auto found = state_->meters.find(std::string_view(meter.name));
    if (found == state_->meters.end()) {
      prometheus::Gauge& committed =
          state_->families.gauge(MetricId::MeterCommitted, {meter.name});
      prometheus::Gauge& capacity = state_->families.gauge(MetricId::MeterCapacity, {meter.name});
      found = state_->meters.emplace(meter.name, std::pair(&committed, &capacity)).first;
    }
    found->second.first->Set(static_cast<double>(meter.committed));
    found->second.second->Set(static_cast<double>(meter.capacity));
  }
}

void Metrics::State::set_gauges() {
  using enum MetricId;
  std::int64_t waiting = 0;
  std::int64_t active = 0;
  for (std::size_t i = 0; i < queued.size(); ++i) {
    queued_gauges[i]->Set(static_cast<double>(queued[i]));
    waiting += queued[i];
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i] != 0 || running_gauges[i] != nullptr) {
      running_gauge(i).Set(static_cast<double>(running[i]));
    }
    active += running[i];
  }
  gauge(VllmRequestsWaiting).Set(static_cast<double>(waiting));
  gauge(VllmRequestsRunning).Set(static_cast<double>(active));

  const ProcessStats process = read_process_stats();
  prometheus::Counter& cpu = count(ProcessCpuSeconds);
  cpu.Increment(std::max(process.cpu_seconds - cpu.Value(), 0.0));
  gauge(ProcessResidentBytes).Set(static_cast<double>(process.resident_bytes));
  gauge(ProcessVirtualBytes).Set(static_cast<double>(process.virtual_bytes));
  gauge(ProcessOpenFds).Set(static_cast<double>(process.open_fds));
  gauge(ProcessThreads).Set(static_cast<double>(process.threads));
  gauge(ProcessStartTime).Set(process.start_time_seconds);
}

std::string Metrics::text() {
  state_->set_gauges();
  return state_->families.text();
}

}  // namespace turnstile::gateway
