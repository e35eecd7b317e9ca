#include "bench/load/report.h"

#include <array>
#include <cstdio>
#include <map>

#include "bench/load/json_writer.h"
#include "bench/load/statistics.h"

namespace turnstile::load {
namespace {

double to_s(Time time) { return std::chrono::duration<double>(time).count(); }
std::uint64_t to_ns(Time time) { return static_cast<std::uint64_t>(time.count()); }

struct Named {
  const char* name;
  std::optional<Summary> summary;
};

// Everything that is counted over the records, once.
struct Totals {
  std::array<std::uint64_t, kOutcomeCount> outcomes{};
  std::map<std::string, std::uint64_t> codes;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t text_events = 0;
  Time last_end{};
  std::vector<Named> latencies;

  const std::optional<Summary>& latency(std::string_view name) const {
    for (const Named& named : latencies) {
      if (named.name == name) return named.summary;
    }
    static const std::optional<Summary> none;
    return none;
  }
};

Totals count(const LoadResult& result) {
  Totals totals;
  std::vector<double> ttft_sched, ttft_sent, tpot, gaps, e2e_sched, e2e_sent, reject;
  for (const Record& r : result.records) {
    ++totals.outcomes[static_cast<std::size_t>(r.outcome)];
    if (!r.code.empty()) ++totals.codes[r.code];
    totals.last_end = std::max(totals.last_end, r.ended);
    if (r.outcome == Outcome::Rejected) reject.push_back(to_ms(r.ended - r.scheduled));
    if (r.outcome != Outcome::Completed) continue;
    totals.prompt_tokens += r.prompt_tokens.value_or(0);
    totals.cached_tokens += r.cached_tokens.value_or(0);
    totals.completion_tokens += r.completion_tokens.value_or(r.text_events);
    totals.text_events += r.text_events;
    e2e_sched.push_back(to_ms(r.ended - r.scheduled));
    e2e_sent.push_back(to_ms(r.ended - r.sent));
    if (r.first_token) {
      ttft_sched.push_back(to_ms(*r.first_token - r.scheduled));
      ttft_sent.push_back(to_ms(*r.first_token - r.sent));
    }
    if (const auto ms = r.tpot_ms()) tpot.push_back(*ms);
    gaps.insert(gaps.end(), r.gaps_ms.begin(), r.gaps_ms.end());
  }
  totals.latencies = {{"ttft_sched_ms", summarize(std::move(ttft_sched))},
                      {"ttft_sent_ms", summarize(std::move(ttft_sent))},
                      {"tpot_ms", summarize(std::move(tpot))},
                      {"event_gap_ms", summarize(std::move(gaps))},
                      {"e2e_sched_ms", summarize(std::move(e2e_sched))},
                      {"e2e_sent_ms", summarize(std::move(e2e_sent))},
                      {"time_to_reject_ms", summarize(std::move(reject))}};
  return totals;
}

void write_summary(JsonWriter& json, const Summary& s) {
  json.begin_object().key("n").value(std::uint64_t{s.count}).key("mean").value(s.mean);
  json.key("min").value(s.min).key("p50").value(s.p50).key("p90").value(s.p90);
  json.key("p95").value(s.p95);
  if (s.p99) json.key("p99").value(*s.p99);
  json.key("max").value(s.max).end_object();
}

void write_load(JsonWriter& json, const Options& o, const Verdict& v, const LoadResult& result) {
  json.key("load").begin_object();
  json.key("mode").value(o.rate_per_s ? "open" : "closed");
  json.key("streams").value(std::uint64_t{o.streams});
  if (o.rate_per_s) {
    json.key("arrival").value(o.arrival == Arrival::Poisson ? "poisson" : "uniform");
    json.key("target_per_s").value(*o.rate_per_s);
  }
  json.key("requests").value(o.requests).key("seed").value(o.seed);
  json.key("started_monotonic_ns").value(to_ns(result.started.time_since_epoch()));
  json.key("prompt_tokens").value(std::uint64_t{o.prompt_tokens});
  json.key("max_tokens").value(std::uint64_t{o.max_tokens});
  json.key("lag_ms").begin_object().key("p50").value(v.lag_p50_ms);
  json.key("p99").value(v.lag_p99_ms).key("max").value(v.lag_max_ms).end_object();
  json.key("cpu_share").value(v.own_cpu_share).key("own_cpu_s").value(to_s(result.own_cpu));
  json.key("loop_stall_ms").value(v.longest_turn_ms).end_object();
  json.key("verdict").begin_object().key("status").value(v.is_valid() ? "valid" : "invalid");
  json.key("reasons").begin_array();
  for (const std::string& reason : v.reasons) json.value(reason);
  json.end_array().end_object();
}

void write_outcomes(JsonWriter& json, const Totals& totals, std::uint64_t offered) {
  json.key("outcomes").begin_object().key("offered").value(offered);
  for (int i = 0; i < kOutcomeCount; ++i) {
    json.key(name_of(static_cast<Outcome>(i))).value(totals.outcomes[static_cast<std::size_t>(i)]);
  }
  json.end_object().key("codes").begin_object();
  for (const auto& [code, times] : totals.codes) json.key(code).value(times);
  json.end_object();
}

std::string people_text(const Totals& totals, const Verdict& verdict, double wall_s,
                        std::uint64_t offered) {
  char line[256];
  std::string text;
  const auto add = [&](auto... values) {
    std::snprintf(line, sizeof line, values...);
    text += line;
  };
  add("requests  %llu offered, %llu completed in %.2f s\n",
      static_cast<unsigned long long>(offered),
      static_cast<unsigned long long>(
          totals.outcomes[static_cast<std::size_t>(Outcome::Completed)]), wall_s);
  for (const auto& [code, times] : totals.codes) {
    add("  %-18s %llu\n", code.c_str(), static_cast<unsigned long long>(times));
  }
  add("tokens    %llu prompt, %llu new: %.1f new tokens/s\n",
      static_cast<unsigned long long>(totals.prompt_tokens),
      static_cast<unsigned long long>(totals.completion_tokens),
      static_cast<double>(totals.completion_tokens) / wall_s);
  for (const Named& named : totals.latencies) {
    if (!named.summary) continue;
    const Summary& s = *named.summary;
    add("%-18s p50 %9.3f  p90 %9.3f  %s %9.3f  max %9.3f\n", named.name, s.p50, s.p90,
        s.p99 ? "p99" : "p95", s.p99.value_or(s.p95), s.max);
  }
  add("client    lag p99 %.3f ms, %.0f %% of a core, longest turn %.2f ms: %s\n",
      verdict.lag_p99_ms, 100 * verdict.own_cpu_share, verdict.longest_turn_ms,
      verdict.is_valid() ? "valid" : "INVALID, the client was the limit");
  for (const std::string& reason : verdict.reasons) text += "  " + reason + "\n";
  return text;
}

}  // namespace

Report make_report(const Options& options, const LoadResult& result) {
  const Totals totals = count(result);
  const auto& ttft = totals.latency("ttft_sent_ms");
  const Verdict verdict = judge(result, ttft ? std::optional(ttft->p50) : std::nullopt);
  const double wall_s = std::max(to_s(totals.last_end), 1e-9);

  JsonWriter json;
  json.begin_object().key("schema").value("turnstile.load/1");
  write_load(json, options, verdict, result);
  write_outcomes(json, totals, result.records.size());
  json.key("latency").begin_object();
  for (const Named& named : totals.latencies) {
    if (!named.summary) continue;
    json.key(named.name);
    write_summary(json, *named.summary);
  }
  json.end_object().key("throughput").begin_object();
  json.key("wall_s").value(wall_s);
  json.key("req_per_s").value(static_cast<double>(result.records.size()) / wall_s);
  json.key("in_tok_per_s").value(static_cast<double>(totals.prompt_tokens) / wall_s);
  json.key("out_tok_per_s").value(static_cast<double>(totals.completion_tokens) / wall_s);
  json.key("prompt_tokens").value(totals.prompt_tokens);
  json.key("cached_tokens").value(totals.cached_tokens);
  json.key("completion_tokens").value(totals.completion_tokens);
  json.key("text_events").value(totals.text_events);
  json.end_object().end_object();
  return {json.take() + "\n", people_text(totals, verdict, wall_s, result.records.size()),
          verdict.is_valid()};
}

std::string record_lines(const LoadResult& result) {
  std::string lines;
  for (const Record& r : result.records) {
    JsonWriter json;
    json.begin_object().key("seq").value(r.sequence).key("outcome").value(name_of(r.outcome));
    json.key("http").value(static_cast<std::uint64_t>(r.status));
    if (!r.code.empty()) json.key("code").value(r.code);
    json.key("sched_ns").value(to_ns(r.scheduled)).key("sent_ns").value(to_ns(r.sent));
    if (r.headers) json.key("headers_ns").value(to_ns(*r.headers));
    if (r.first_token) json.key("first_token_ns").value(to_ns(*r.first_token));
    if (r.last_token) json.key("last_token_ns").value(to_ns(*r.last_token));
    json.key("end_ns").value(to_ns(r.ended)).key("text_events").value(r.text_events);
    if (r.prompt_tokens) json.key("prompt_tokens").value(*r.prompt_tokens);
    if (r.cached_tokens) json.key("cached_tokens").value(*r.cached_tokens);
    if (r.completion_tokens) json.key("completion_tokens").value(*r.completion_tokens);
    if (!r.finish_reason.empty()) json.key("finish").value(r.finish_reason);
    if (!r.end_code.empty()) json.key("end_code").value(r.end_code);
    if (r.retry_after_s) json.key("retry_after_s").value(*r.retry_after_s);
    if (r.queue_ms) json.key("queue_ms").value(*r.queue_ms);
    if (r.server_ttft_ms) json.key("server_ttft_ms").value(*r.server_ttft_ms);
    if (r.pauses) json.key("pauses").value(*r.pauses);
    json.key("gaps_ms").begin_array();
    for (const float gap : r.gaps_ms) json.value(double{gap});
    json.end_array().key("text_hash").value(r.text_hash).end_object();
    lines += json.take() + "\n";
  }
  return lines;
}

}  // namespace turnstile::load
