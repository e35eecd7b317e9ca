// metrics_table.h: every series that the program exposes, once.
//
// name, type, labels, buckets and help text; the help names the unit and, for a histogram, why its
// bounds are what they are. The vllm: families keep vLLM's names, types and bounds, so that
// existing dashboards work; finer bounds are added below 0.3 s, where a small model lives.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace turnstile::gateway {

enum class MetricId : std::uint8_t {
  // Requests and admission.
  RequestsArrived,
  RequestsFinished,
  RequestsQueued,
  RequestsRunning,
  AdmissionDecisions,
  AdmissionRejected,
  QueueWait,
  Clamps,
  AuthFailures,
  InvalidRequests,
  UnknownFields,
  MeterCommitted,
  MeterCapacity,
  PolicyRevision,
  PolicyReload,
  KeyReload,
  KeyFileErrors,
  // Engine.
  EngineSteps,
  EngineStepSeconds,
  EngineRows,
  EngineStepBase,
  EngineStepRow,
  EngineStepKvGib,
  // Connections.
  Connections,
  ConnectionsOpened,
  ConnectionsRefused,
  TlsHandshakes,
  // vLLM's families.
  VllmRequestsRunning,
  VllmRequestsWaiting,
  VllmKvCacheUsage,
  VllmPreemptions,
  VllmPromptTokens,
  VllmPromptTokensCached,
  VllmGenerationTokens,
  VllmPrefixCacheQueries,
  VllmPrefixCacheHits,
  VllmCacheHitTokens,
  VllmSpecDrafts,
  VllmSpecDraftTokens,
  VllmSpecAcceptedTokens,
  VllmRequestSuccess,
  VllmIterationTokens,
  VllmRequestPromptTokens,
  VllmRequestGenerationTokens,
  VllmRequestMaxTokens,
  VllmRequestN,
  VllmTimeToFirstToken,
  VllmInterTokenLatency,
  VllmTimePerOutputToken,
  VllmEndToEndLatency,
  VllmQueueTime,
  VllmInferenceTime,
  VllmPrefillTime,
  VllmDecodeTime,
  // Process.
  BuildInfo,
  SeriesDropped,
  ProcessCpuSeconds,
  ProcessResidentBytes,
  ProcessVirtualBytes,
  ProcessOpenFds,
  ProcessThreads,
  ProcessStartTime,
  Count
};
inline constexpr std::size_t kMetricCount = static_cast<std::size_t>(MetricId::Count);

enum class MetricType : std::uint8_t { Counter, Gauge, Histogram };

struct MetricRow {
  MetricId id;
  std::string_view name;
  MetricType type;
  std::string_view help;
  std::array<std::string_view, 4> labels{};  // empty ones are not there
  std::span<const double> buckets{};         // upper bounds, without +Inf
};

std::span<const MetricRow> metrics_table();  // in the order of MetricId

}  // namespace turnstile::gateway
