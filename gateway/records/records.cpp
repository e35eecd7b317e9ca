#include "gateway/records/records.h"

#include "gateway/api/json_object.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {

std::string_view to_string(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::Refused: return "refused";
    case RequestOutcome::Completed: return "completed";
    case RequestOutcome::ClientGone: return "client_gone";
    case RequestOutcome::TimedOut: return "timed_out";
    case RequestOutcome::Fault: return "fault";
  }
  return {};
}

void RequestRecord::set_resolved(const policy::Resolved& resolved) {
  department = resolved.department;
  team = resolved.team;
  key_id = resolved.key_id;
  service_class = resolved.class_name;
  requested_class = resolved.requested_class;
  if (resolved.clamp) {
    requested_class = resolved.clamp->requested;
    clamped_by = resolved.clamp->by;
  }
  model = resolved.model_alias;
  serves = resolved.serves;
  policy_revision = resolved.revision;
}

std::optional<policy::Duration> RequestRecord::queue_time() const {
  if (dispatched) return *dispatched - arrived;
  if (ended) return *ended - arrived;
  return std::nullopt;
}

std::optional<policy::Duration> RequestRecord::prefill_time() const {
  if (!dispatched || !first_token) return std::nullopt;
  return *first_token - *dispatched;
}

std::optional<policy::Duration> RequestRecord::decode_time() const {
  if (!first_token || !last_token) return std::nullopt;
  return *last_token - *first_token;
}

std::optional<policy::Duration> RequestRecord::time_to_first_token() const {
  if (!first_token) return std::nullopt;
  return *first_token - arrived;
}

std::optional<policy::Duration> RequestRecord::time_per_output_token() const {
  const std::uint64_t tokens =
      longest_choice_tokens != 0 ? longest_choice_tokens : completion_tokens;
  const auto decode = decode_time();
  if (!decode || tokens < 2) return std::nullopt;
  return *decode / static_cast<std::int64_t>(tokens - 1);
}

policy::Duration RequestRecord::total_time() const {
  return ended ? *ended - arrived : policy::Duration{};
}

double to_ms(policy::Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

void append_request_line(std::string& out, const RequestRecord& record, std::uint64_t count) {
  JsonObject line(out);
  line.text("ts", timestamp(record.arrived_wall));
  line.text("request_id", record.request_id);
  line.text_if("client_request_id", record.client_request_id);
  line.text_if("route", record.route);
  line.text_if("model", record.model);
  line.text_if("dept", record.department);
  line.text("team", record.team);
  line.text("key_id", record.key_id);
  line.text("class", record.service_class);
  line.text("outcome", to_string(record.outcome));
  line.text("code", record.code);
  line.integer("status", record.status);
  line.text_if("finish_reason", record.finish_reason);
  line.text_if("policy", record.policy_revision);
  if (count > 1) line.count("count", count);
  if (record.stream) line.boolean("stream", true);
  if (record.choices > 1) line.count("choices", record.choices);
  line.count("prompt_tokens", record.prompt_tokens);
  if (!record.is_end_unknown) {
    line.count("cached_tokens", record.cached_tokens);
    line.count("completion_tokens", record.completion_tokens);
    line.boolean("cache_hit", record.cached_tokens > 0);
  }
  line.ms_if("queue_ms", record.queue_time());
  line.ms_if("prefill_ms", record.prefill_time());
  line.ms_if("decode_ms", record.decode_time());
  line.ms_if("ttft_ms", record.time_to_first_token());
  line.ms_if("tpot_ms", record.time_per_output_token());
  if (!record.is_end_unknown) line.ms("e2e_ms", record.total_time());
  if (record.pauses > 0) line.count("pauses", record.pauses);
  if (record.is_recovered) line.boolean("recovered", true);
  line.close();
  out += '\n';
}

void EventLog::write(std::string_view event, std::string_view by, Fields fields) {
  std::string out;
  JsonObject line(out);
  line.text("ts", timestamp(clock_.wall()));
  line.text("event", event);
  line.text_if("by", by);
  for (const auto& [name, value] : fields) line.text(name, value);
  line.close();
  sink_.write(LineStream::Events, out += '\n');
}

void EventLog::write_json(std::string_view event, std::string_view by, std::string_view name,
                          std::string_view json) {
  std::string out;
  JsonObject line(out);
  line.text("ts", timestamp(clock_.wall()));
  line.text("event", event);
  line.text_if("by", by);
  line.raw(name, json);
  line.close();
  sink_.write(LineStream::Events, out += '\n');
}

}  // namespace turnstile::gateway
