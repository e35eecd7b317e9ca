#include "gateway/metrics/metrics_table.h"

namespace turnstile::gateway {
namespace {

constexpr std::array kFirstTokenBounds{.001, .0025, .005, .01, .02, .04, .06, .08, .1,
                                       .15,  .2,    .25,  .3,  .5,  .75, 1.,  2.5, 5.,
                                       7.5,  10.,   20.,  40., 80., 160., 640., 2560.};
constexpr std::array kTokenGapBounds{.001, .0025, .005, .01, .015, .02, .025, .03, .04,
                                     .05,  .075,  .1,   .15, .2,   .3,  .4,   .5,  .75,
                                     1.,   2.5,   5.,   7.5, 10.,  20., 40.,  80.};
constexpr std::array kLatencyBounds{.001, .0025, .005, .01, .025, .05, .1,   .15,  .2,   .3,
                                    .5,   .8,    1.,   1.5, 2.,   2.5, 5.,   10.,  15.,  20.,
                                    30.,  40.,   50.,  60., 120., 240., 480., 960., 1920., 7680.};
constexpr std::array kTokenCountBounds{1.,    2.,    5.,     10.,    20.,    50.,     100.,
                                       200.,  500.,  1000.,  2000.,  5000.,  10000.,  20000.,
                                       50000., 100000., 200000., 500000., 1000000.};
constexpr std::array kStepTokenBounds{1.,   2.,   4.,    8.,    16.,   32.,   64.,   128.,
                                      256., 512., 1024., 2048., 4096., 8192., 16384.};
constexpr std::array kStepSecondsBounds{.0005, .001, .002, .005, .01, .02, .05,
                                        .1,    .2,   .5,   1.,   2.,  5.};
constexpr std::array kChoiceBounds{1., 2., 5., 10., 20.};

using enum MetricId;
using enum MetricType;

constexpr std::array<MetricRow, kMetricCount> kRows{{
    {RequestsArrived, "turnstile_requests_arrived_total", Counter,
     "Requests with a good key and a valid body on a generating route."},
    {RequestsFinished, "turnstile_requests_finished_total", Counter,
     "Arrived requests by how they ended: refused, completed, client_gone, timed_out, fault.",
     {"team", "class", "outcome"}},
    {RequestsQueued, "turnstile_requests_queued", Gauge,
     "Arrived requests that hold no permit or are paused; class is empty before it is known.",
     {"class"}},
    {RequestsRunning, "turnstile_requests_running", Gauge,
     "Requests that hold a permit and are not paused.", {"team"}},
    {AdmissionDecisions, "turnstile_admission_decisions_total", Counter,
     "Verdicts, one per arrived request that did not leave before; code is empty when admitted.",
     {"team", "class", "outcome", "code"}},
    {AdmissionRejected, "turnstile_admission_rejected_total", Counter,
     "Verdicts that were a refusal, by code.", {"team", "class", "code"}},
    {QueueWait, "turnstile_queue_wait_seconds", Histogram,
     "Seconds from arrival to dispatch, or to the end without it; vLLM's latency bounds, finer "
     "below 0.3 s.",
     {"class"}, kLatencyBounds},
    {Clamps, "turnstile_clamps_total", Counter,
     "Requests whose class was lowered to a maximum of key, team, department or model.",
     {"class"}},
    {AuthFailures, "turnstile_auth_failures_total", Counter,
     "Requests without a good key, and those that the admin listener does not answer."},
    {InvalidRequests, "turnstile_invalid_requests_total", Counter,
     "Requests that are not valid, by code, malformed HTTP too; they are not arrived.", {"code"}},
    {UnknownFields, "turnstile_unknown_request_fields_total", Counter,
     "Request fields that were accepted and have no effect because their name is not known."},
    {MeterCommitted, "turnstile_meter_committed", Gauge,
     "What is taken of a meter, in its unit (blocks, requests, tokens).", {"meter"}},
    {MeterCapacity, "turnstile_meter_capacity", Gauge, "What a meter holds, in its unit.",
     {"meter"}},
    {PolicyRevision, "turnstile_policy_revision_info", Gauge,
     "1 for the policy revision in force, 0 for earlier ones.", {"revision"}},
    {PolicyReload, "turnstile_policy_reload_total", Counter,
     "Reads of the policy file by result: applied, unchanged, rejected.", {"result"}},
    {KeyReload, "turnstile_key_reload_total", Counter,
     "Reads of the key file by result: applied, partial, rejected.", {"result"}},
    {KeyFileErrors, "turnstile_key_file_errors", Gauge,
     "Mistakes in the key file as it is now; above 0 the keys they stand at are closed, or nothing "
     "of the file is in force."},

    {EngineSteps, "turnstile_engine_steps_total", Counter, "Engine steps that computed something."},
    {EngineStepSeconds, "turnstile_engine_step_seconds", Histogram,
     "Seconds of one engine step; bounds from a decode of a tiny model to a stuck step.", {},
     kStepSecondsBounds},
    {EngineRows, "turnstile_engine_rows_total", Counter,
     "Tokens computed by the engine as they are computed; kind is prompt or decode.", {"kind"}},
    {EngineStepBase, "turnstile_engine_step_base_seconds", Gauge,
     "Learned cost of a step: seconds before its first token."},
    {EngineStepRow, "turnstile_engine_step_row_seconds", Gauge,
     "Learned cost of a step: seconds for each token computed in it."},
    {EngineStepKvGib, "turnstile_engine_step_kv_gib_seconds", Gauge,
     "Learned cost of a step: seconds for each GiB of KV cache that its tokens attend over."},

    {Connections, "turnstile_connections", Gauge, "Open connections of the public listener."},
    {ConnectionsOpened, "turnstile_connections_opened_total", Counter, "Connections accepted."},
    {ConnectionsRefused, "turnstile_connections_refused_total", Counter,
     "Connections closed at once because a connection limit was reached."},
    {TlsHandshakes, "turnstile_tls_handshakes_total", Counter,
     "TLS handshakes by result: ok, failed.", {"result"}},

    {VllmRequestsRunning, "vllm:num_requests_running", Gauge, "Requests that run.",
     {"model_name", "engine"}},
    {VllmRequestsWaiting, "vllm:num_requests_waiting", Gauge, "Requests that wait.",
     {"model_name", "engine"}},
    {VllmKvCacheUsage, "vllm:kv_cache_usage_perc", Gauge,
     "Share of the KV cache's blocks that are in use; 1 is full.", {"model_name", "engine"}},
    {VllmPreemptions, "vllm:num_preemptions_total", Counter, "Sequences paused for want of blocks.",
     {"model_name", "engine"}},
    {VllmPromptTokens, "vllm:prompt_tokens_total", Counter,
     "Prompt tokens of requests that were dispatched, counted at their end.",
     {"model_name", "engine"}},
    {VllmPromptTokensCached, "vllm:prompt_tokens_cached_total", Counter,
     "Of the prompt tokens those found in the prefix cache.", {"model_name", "engine"}},
    {VllmGenerationTokens, "vllm:generation_tokens_total", Counter,
     "Generated tokens, counted at the end of their request.", {"model_name", "engine"}},
    {VllmPrefixCacheQueries, "vllm:prefix_cache_queries_total", Counter,
     "Prompt tokens looked up in the prefix cache.", {"model_name", "engine"}},
    {VllmPrefixCacheHits, "vllm:prefix_cache_hits_total", Counter,
     "Prompt tokens found in the prefix cache.", {"model_name", "engine"}},
    {VllmCacheHitTokens, "vllm:cache_hit_tokens_total", Counter,
     "The same as prefix_cache_hits, under the name of older panels.", {"model_name", "engine"}},
    {VllmSpecDrafts, "vllm:spec_decode_num_drafts_total", Counter,
     "Times that tokens of a sequence were guessed and verified.",
     {"model_name", "engine", "method"}},
    {VllmSpecDraftTokens, "vllm:spec_decode_num_draft_tokens_total", Counter,
     "Guessed tokens that were verified.", {"model_name", "engine", "method"}},
    {VllmSpecAcceptedTokens, "vllm:spec_decode_num_accepted_tokens_total", Counter,
     "Guessed tokens that each saved a step.", {"model_name", "engine", "method"}},
    {VllmRequestSuccess, "vllm:request_success_total", Counter,
     "Dispatched requests by how they ended: stop, length, abort, error.",
     {"model_name", "engine", "finished_reason"}},
    {VllmIterationTokens, "vllm:iteration_tokens_total", Histogram,
     "Tokens computed in one step; vLLM's bounds and 2, 4.", {"model_name", "engine"},
     kStepTokenBounds},
    {VllmRequestPromptTokens, "vllm:request_prompt_tokens", Histogram,
     "Prompt tokens of a request; 1-2-5 series as in vLLM.", {"model_name", "engine"},
     kTokenCountBounds},
    {VllmRequestGenerationTokens, "vllm:request_generation_tokens", Histogram,
     "Generated tokens of a request; 1-2-5 series as in vLLM.", {"model_name", "engine"},
     kTokenCountBounds},
    {VllmRequestMaxTokens, "vllm:request_params_max_tokens", Histogram,
     "max_tokens in force for a request; 1-2-5 series as in vLLM.", {"model_name", "engine"},
     kTokenCountBounds},
    {VllmRequestN, "vllm:request_params_n", Histogram, "n of a request; vLLM's bounds.",
     {"model_name", "engine"}, kChoiceBounds},
    {VllmTimeToFirstToken, "vllm:time_to_first_token_seconds", Histogram,
     "Seconds from the request fully read to its first content; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kFirstTokenBounds},
    {VllmInterTokenLatency, "vllm:inter_token_latency_seconds", Histogram,
     "Seconds between two tokens of a choice; vLLM's bounds, finer below 50 ms.",
     {"model_name", "engine"}, kTokenGapBounds},
    {VllmTimePerOutputToken, "vllm:request_time_per_output_token_seconds", Histogram,
     "Decode seconds / (tokens - 1) of a request; requests of one token are left out.",
     {"model_name", "engine"}, kTokenGapBounds},
    {VllmEndToEndLatency, "vllm:e2e_request_latency_seconds", Histogram,
     "Seconds from the request fully read to its end; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kLatencyBounds},
    {VllmQueueTime, "vllm:request_queue_time_seconds", Histogram,
     "Seconds from arrival to dispatch; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kLatencyBounds},
    {VllmInferenceTime, "vllm:request_inference_time_seconds", Histogram,
     "Seconds from dispatch to the last token; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kLatencyBounds},
    {VllmPrefillTime, "vllm:request_prefill_time_seconds", Histogram,
     "Seconds from dispatch to the first token; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kLatencyBounds},
    {VllmDecodeTime, "vllm:request_decode_time_seconds", Histogram,
     "Seconds from the first to the last token; vLLM's bounds, finer below 0.3 s.",
     {"model_name", "engine"}, kLatencyBounds},

    {BuildInfo, "turnstile_build_info", Gauge, "1; what this binary was built from.",
     {"version", "commit"}},
    {SeriesDropped, "turnstile_metric_series_dropped_total", Counter,
     "Updates of label sets beyond the bound of series."},
    {ProcessCpuSeconds, "process_cpu_seconds_total", Counter, "User and system CPU seconds."},
    {ProcessResidentBytes, "process_resident_memory_bytes", Gauge, "Resident memory in bytes."},
    {ProcessVirtualBytes, "process_virtual_memory_bytes", Gauge, "Virtual memory in bytes."},
    {ProcessOpenFds, "process_open_fds", Gauge, "Open file descriptors."},
    {ProcessThreads, "process_threads", Gauge, "Threads."},
    {ProcessStartTime, "process_start_time_seconds", Gauge,
     "Start of the process in seconds since 1970."},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].id != static_cast<MetricId>(i)) return false;
  }
  return true;
}
static_assert(is_in_order(), "a row stands at the index of its id");

}  // namespace

std::span<const MetricRow> metrics_table() { return kRows; }

}  // namespace turnstile::gateway
