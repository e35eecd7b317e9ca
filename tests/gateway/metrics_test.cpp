#include "gateway/metrics/metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/metrics/metrics_table.h"
#include "gateway/metrics/process_stats.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

MetricsLabels labels() { return {"smollm2", {"lab", "teaching"}, {"interactive", "batch"}}; }

// "name{labels}" -> value, for every sample of the text.
std::map<std::string, double> samples(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    values[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return values;
}

double sum_of(const std::map<std::string, double>& values, const std::string& name) {
  double sum = 0;
  for (const auto& [key, value] : values) {
    if (key == name || key.starts_with(name + "{")) sum += value;
  }
  return sum;
}

RequestRecord arrived(Metrics& metrics) {
  RequestRecord record;
  record.arrived = policy::Instant(1s);
  metrics.on_arrived(record);
  record.team = "lab";
  record.service_class = "interactive";
  return record;
}

RequestRecord finished(Metrics& metrics) {
  RequestRecord record = arrived(metrics);
  metrics.on_queued(record);
  metrics.on_verdict(record, Metrics::Verdict::Admitted, "");
  metrics.on_running(record);
  record.dispatched = record.arrived + 100ms;
  record.first_token = record.arrived + 150ms;
  record.last_token = record.arrived + 250ms;
  record.ended = record.arrived + 251ms;
  record.prompt_tokens = 20;
  record.cached_tokens = 16;
  record.completion_tokens = 11;
  record.max_tokens = 64;
  record.finish_reason = "length";
  record.outcome = RequestOutcome::Completed;
  metrics.on_finished(record);
  return record;
}

TEST(Metrics, AFinishedRequestIsCountedEverywhereOnce) {
  Metrics metrics(labels());
  finished(metrics);
  const auto values = samples(metrics.text());
  const std::string model = "{engine=\"0\",model_name=\"smollm2\"}";
  const std::vector<std::pair<std::string, double>> expected{
      {"turnstile_requests_arrived_total", 1},
      {"turnstile_requests_finished_total{class=\"interactive\",outcome=\"completed\",team=\"lab\"}",
       1},
      {"turnstile_admission_decisions_total{class=\"interactive\",code=\"\",outcome=\"admitted\","
       "team=\"lab\"}",
       1},
      {"turnstile_requests_queued{class=\"\"}", 0},
      {"turnstile_requests_queued{class=\"interactive\"}", 0},
      {"turnstile_requests_running{team=\"lab\"}", 0},
      {"turnstile_requests_running{team=\"teaching\"}", 0},
      {"vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"smollm2\"}",
       1},
      {"vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"smollm2\"}", 0},
      {"vllm:prompt_tokens_total" + model, 20},
      {"vllm:prompt_tokens_cached_total" + model, 16},
      {"vllm:generation_tokens_total" + model, 11},
      {"vllm:time_to_first_token_seconds_sum" + model, 0.15},
      {"vllm:request_queue_time_seconds_sum" + model, 0.1},
      {"vllm:request_prefill_time_seconds_sum" + model, 0.05},
      {"vllm:request_decode_time_seconds_sum" + model, 0.1},
      {"vllm:request_inference_time_seconds_sum" + model, 0.15},
      {"vllm:e2e_request_latency_seconds_sum" + model, 0.251},
      {"vllm:request_time_per_output_token_seconds_sum" + model, 0.01},
      {"vllm:request_time_per_output_token_seconds_count" + model, 1},
      {"vllm:num_requests_running" + model, 0},
  };
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(values.contains(name)) << name;
    EXPECT_DOUBLE_EQ(values.at(name), value) << name;
  }
}

TEST(Metrics, ARefusalIsADecisionARejectionAndAnEnd) {
  Metrics metrics(labels());
  RequestRecord record = arrived(metrics);
  metrics.on_verdict(record, Metrics::Verdict::Refused, "queue_full");
  record.outcome = RequestOutcome::Refused;
  record.code = "queue_full";
  metrics.on_finished(record);
  const auto values = samples(metrics.text());
  EXPECT_EQ(values.at("turnstile_admission_rejected_total{class=\"interactive\",code=\"queue_full\","
                      "team=\"lab\"}"),
            1);
  EXPECT_EQ(values.at("turnstile_admission_decisions_total{class=\"interactive\","
                      "code=\"queue_full\",outcome=\"refused\",team=\"lab\"}"),
            1);
  EXPECT_EQ(values.at("turnstile_requests_finished_total{class=\"interactive\","
                      "outcome=\"refused\",team=\"lab\"}"),
            1);
  EXPECT_EQ(sum_of(values, "vllm:request_success_total"), 0);
}

// A thousand random lives; after every event the books balance.
TEST(Metrics, ArrivedEqualsFinishedPlusQueuedPlusRunningAtEveryScrape) {
  Metrics metrics(labels());
  std::mt19937 random(20'260'802);
  std::vector<RequestRecord> live;
  const std::vector<std::string> teams{"lab", "teaching", "unknown team", ""};
  const std::vector<std::string> classes{"interactive", "batch", "unknown class", ""};
  double refused = 0;
  for (int step = 0; step < 1'000; ++step) {
    if (live.empty() || random() % 3 == 0) {
      RequestRecord record;
      metrics.on_arrived(record);
      record.team = teams[random() % teams.size()];
      record.service_class = classes[random() % classes.size()];
      live.push_back(record);
    } else {
      const std::size_t i = random() % live.size();
      RequestRecord& record = live[i];
      const bool ends = random() % 3 == 0;
      if (ends) {
        record.outcome = static_cast<RequestOutcome>(random() % 5);
        refused += record.outcome == RequestOutcome::Refused ? 1 : 0;
        if (random() % 2 == 0) record.dispatched = record.arrived;
        metrics.on_finished(record);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (record.phase == RequestPhase::Arrived) {
        random() % 2 == 0 ? metrics.on_queued(record) : metrics.on_running(record);
      } else if (record.phase == RequestPhase::Queued) {
        metrics.on_running(record);
      } else if (record.phase == RequestPhase::Running) {
        metrics.on_paused(record);
      } else {
        metrics.on_resumed(record);
      }
    }
    if (step % 10 != 0) continue;
    const auto values = samples(metrics.text());
    const double waiting = sum_of(values, "turnstile_requests_queued");
    const double running = sum_of(values, "turnstile_requests_running");
    ASSERT_EQ(waiting + running, static_cast<double>(live.size())) << "step " << step;
    ASSERT_EQ(sum_of(values, "turnstile_requests_arrived_total"),
              sum_of(values, "turnstile_requests_finished_total") + waiting + running);
    ASSERT_EQ(sum_of(values, "vllm:num_requests_waiting"), waiting);
    ASSERT_EQ(sum_of(values, "vllm:num_requests_running"), running);
    for (const auto& [name, value] : values) {
      if (name.starts_with("turnstile_requests_")) { ASSERT_GE(value, 0) << name; }
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Metrics, NothingOutsideTheClosedSetsBecomesALabel) {
  Metrics metrics(labels());
  for (int i = 0; i < 1'000; ++i) {
    RequestRecord record = arrived(metrics);
    record.team = "team-" + std::to_string(i);
    record.service_class = "class-" + std::to_string(i);
    metrics.on_verdict(record, Metrics::Verdict::Refused, "queue_full");
    record.outcome = RequestOutcome::Refused;
    metrics.on_finished(record);
  }
  const std::string text = metrics.text();
  EXPECT_EQ(text.find("team-"), std::string::npos);
  EXPECT_EQ(text.find("class-"), std::string::npos);
  EXPECT_EQ(samples(text).at("turnstile_requests_finished_total{class=\"other\","
                             "outcome=\"refused\",team=\"other\"}"),
            1'000);
}

TEST(Metrics, TeamsBeyondTwoHundredAreOther) {
  MetricsLabels many = labels();
  many.teams.clear();
  for (int i = 0; i < 300; ++i) many.teams.push_back("t" + std::to_string(i));
  Metrics metrics(many);
  const auto values = samples(metrics.text());
  EXPECT_TRUE(values.contains("turnstile_requests_running{team=\"t199\"}"));
  EXPECT_FALSE(values.contains("turnstile_requests_running{team=\"t200\"}"));
  EXPECT_TRUE(values.contains("turnstile_requests_running{team=\"other\"}"));
}

TEST(Metrics, SeriesAreBounded) {
  Metrics metrics(labels());
  std::vector<policy::MeterView> meters;
  for (int i = 0; i < 6'000; ++i) meters.push_back({"meter-" + std::to_string(i), 1, 2});
  metrics.set_meters(meters);
  const auto values = samples(metrics.text());
  EXPECT_GT(values.at("turnstile_metric_series_dropped_total"), 2'000 - 300);
  EXPECT_LT(sum_of(values, "turnstile_meter_committed"), 5'001);
}

TEST(Metrics, EngineStepsFillTheEngineFamilies) {
  Metrics metrics(labels());
  engine::StepStats stats;
  stats.rows = 40;
  stats.prompt_rows = 32;
  stats.preemptions = 1;
  stats.cache_query_tokens = 64;
  stats.cache_hit_tokens = 48;
  stats.free_blocks = 75;
  stats.total_blocks = 100;
  metrics.on_step(stats, 3ms);
  metrics.on_token_gap(12ms);
  const auto values = samples(metrics.text());
  const std::string model = "{engine=\"0\",model_name=\"smollm2\"}";
  EXPECT_EQ(values.at("turnstile_engine_steps_total"), 1);
  EXPECT_EQ(values.at("turnstile_engine_rows_total{kind=\"prompt\"}"), 32);
  EXPECT_EQ(values.at("turnstile_engine_rows_total{kind=\"decode\"}"), 8);
  EXPECT_EQ(values.at("vllm:kv_cache_usage_perc" + model), 0.25);
  EXPECT_EQ(values.at("vllm:num_preemptions_total" + model), 1);
  EXPECT_EQ(values.at("vllm:prefix_cache_queries_total" + model), 64);
  EXPECT_EQ(values.at("vllm:prefix_cache_hits_total" + model), 48);
  EXPECT_EQ(values.at("vllm:iteration_tokens_total_sum" + model), 40);
  EXPECT_EQ(values.at("vllm:inter_token_latency_seconds_bucket{engine=\"0\","
                      "model_name=\"smollm2\",le=\"0.01\"}"),
            0);
  EXPECT_EQ(values.at("vllm:inter_token_latency_seconds_bucket{engine=\"0\","
                      "model_name=\"smollm2\",le=\"0.015\"}"),
            1);
}

TEST(Metrics, GuessesAreCountedAsMadeAndAsComeTrueUnderTheirMethod) {
  MetricsLabels guessing = labels();
  guessing.speculation = "ngram";
  Metrics metrics(guessing);
  engine::StepStats stats;
  stats.rows = 9;
  stats.drafts = 2;
  stats.draft_tokens = 7;
  stats.accepted_tokens = 4;
  metrics.on_step(stats, 3ms);
  metrics.on_step(stats, 3ms);
  const auto values = samples(metrics.text());
  const std::string by = "{engine=\"0\",method=\"ngram\",model_name=\"smollm2\"}";
  EXPECT_EQ(values.at("vllm:spec_decode_num_drafts_total" + by), 4);
  EXPECT_EQ(values.at("vllm:spec_decode_num_draft_tokens_total" + by), 14);
  EXPECT_EQ(values.at("vllm:spec_decode_num_accepted_tokens_total" + by), 8);
}

TEST(Metrics, WhatAStepIsLearnedToCostIsExposedInSeconds) {
  Metrics metrics(labels());
  engine::StepStats stats;
  stats.step_base_ms = 4.0;
  stats.step_row_ms = 0.5;
  stats.step_kv_byte_ms = 0x1p-27;
  metrics.on_step(stats, 3ms);
  const auto values = samples(metrics.text());
  EXPECT_DOUBLE_EQ(values.at("turnstile_engine_step_base_seconds"), 0.004);
  EXPECT_DOUBLE_EQ(values.at("turnstile_engine_step_row_seconds"), 0.0005);
  EXPECT_DOUBLE_EQ(values.at("turnstile_engine_step_kv_gib_seconds"), 0.008);
}

TEST(Metrics, TheRestIsCountedUnderItsName) {
  Metrics metrics(labels());
  metrics.on_auth_failure();
  metrics.on_invalid("invalid_json");
  metrics.on_unknown_field();
  metrics.on_connection_opened();
  metrics.on_connection_opened();
  metrics.on_connection_closed();
  metrics.on_connection_refused();
  metrics.on_tls_handshake(false);
  metrics.on_policy_reload("rejected");
  metrics.on_key_reload("applied");
  metrics.set_policy_revision("r1-00000000");
  metrics.set_policy_revision("r2-00000000");
  const std::vector<policy::MeterView> meters{{"inflight/team/lab", 3, 8}};
  metrics.set_meters(meters);
  const auto values = samples(metrics.text());
  EXPECT_EQ(values.at("turnstile_auth_failures_total"), 1);
  EXPECT_EQ(values.at("turnstile_invalid_requests_total{code=\"invalid_json\"}"), 1);
  EXPECT_EQ(values.at("turnstile_unknown_request_fields_total"), 1);
  EXPECT_EQ(values.at("turnstile_connections"), 1);
  EXPECT_EQ(values.at("turnstile_connections_opened_total"), 2);
  EXPECT_EQ(values.at("turnstile_connections_refused_total"), 1);
  EXPECT_EQ(values.at("turnstile_tls_handshakes_total{result=\"failed\"}"), 1);
  EXPECT_EQ(values.at("turnstile_policy_reload_total{result=\"rejected\"}"), 1);
  EXPECT_EQ(values.at("turnstile_key_reload_total{result=\"applied\"}"), 1);
  EXPECT_EQ(values.at("turnstile_policy_revision_info{revision=\"r1-00000000\"}"), 0);
  EXPECT_EQ(values.at("turnstile_policy_revision_info{revision=\"r2-00000000\"}"), 1);
  EXPECT_EQ(values.at("turnstile_meter_committed{meter=\"inflight/team/lab\"}"), 3);
  EXPECT_EQ(values.at("turnstile_meter_capacity{meter=\"inflight/team/lab\"}"), 8);
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(values.at("process_open_fds"), 2);
  EXPECT_GE(values.at("process_threads"), 1);
}

// Counted the long way: every number is asked for.
TEST(ProcessStats, CountsTheDescriptorsThatAreOpenAndNotItsOwn) {
  std::uint64_t open = 0;
  for (int number = 0; number < 1'024; ++number) open += ::fcntl(number, F_GETFD) != -1;
  EXPECT_EQ(read_process_stats().open_fds, open);
}

// vLLM's bounds must all be there, or its dashboards' queries find no such `le`.
TEST(MetricsTable, BucketsContainVllmsBounds) {
  const std::map<std::string_view, std::vector<double>> vllm{
      {"vllm:time_to_first_token_seconds",
       {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
        640, 2560}},
      {"vllm:inter_token_latency_seconds",
       {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}},
      {"vllm:request_time_per_output_token_seconds",
       {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}},
      {"vllm:request_queue_time_seconds",
       {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}},
      {"vllm:iteration_tokens_total",
       {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}},
      {"vllm:request_params_n", {1, 2, 5, 10, 20}},
  };
  std::size_t found = 0;
  for (const MetricRow& row : metrics_table()) {
    const auto bounds = vllm.find(row.name);
    if (bounds == vllm.end()) continue;
    ++found;
    const std::set<double> ours(row.buckets.begin(), row.buckets.end());
    for (const double bound : bounds->second) {
      EXPECT_TRUE(ours.contains(bound)) << row.name << " " << bound;
    }
  }
  EXPECT_EQ(found, vllm.size());
}

TEST(MetricsTable, RowsAreWellFormed) {
  std::set<std::string_view> names;
  for (const MetricRow& row : metrics_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_EQ(row.help.back(), '.') << row.name;
    EXPECT_EQ(row.type == MetricType::Histogram, !row.buckets.empty()) << row.name;
    EXPECT_TRUE(row.type != MetricType::Counter || row.name.ends_with("_total")) << row.name;
    EXPECT_TRUE(std::ranges::is_sorted(row.buckets)) << row.name;
  }
}

TEST(MetricsTable, TheNamesThatScriptsRelyOnAreExposed) {
  Metrics metrics(labels());
  finished(metrics);
  const std::string text = metrics.text();
  for (const char* name :
       {"turnstile_requests_arrived_total counter", "turnstile_requests_finished_total counter",
        "turnstile_requests_queued gauge", "turnstile_requests_running gauge",
        "turnstile_admission_decisions_total counter", "turnstile_engine_steps_total counter",
        "turnstile_build_info gauge", "vllm:num_requests_running gauge",
        "vllm:num_requests_waiting gauge", "vllm:kv_cache_usage_perc gauge",
        "vllm:num_preemptions_total counter", "vllm:prompt_tokens_total counter",
        "vllm:generation_tokens_total counter", "vllm:prefix_cache_queries_total counter",
        "vllm:prefix_cache_hits_total counter", "vllm:cache_hit_tokens_total counter",
        "vllm:request_success_total counter", "vllm:time_to_first_token_seconds histogram",
        "vllm:inter_token_latency_seconds histogram",
        "vllm:request_time_per_output_token_seconds histogram",
        "vllm:e2e_request_latency_seconds histogram", "vllm:request_queue_time_seconds histogram",
        "vllm:request_prefill_time_seconds histogram", "vllm:request_decode_time_seconds histogram",
        "process_cpu_seconds_total counter", "process_resident_memory_bytes gauge"}) {
    EXPECT_NE(text.find(std::string("# TYPE ") + name + "\n"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace turnstile::gateway
