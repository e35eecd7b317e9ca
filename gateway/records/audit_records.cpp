#include "gateway/records/audit_records.h"

namespace turnstile::gateway {
namespace {

void append_who(JsonObject& line, const RequestRecord& record) {
  line.text("request_id", record.request_id);
  line.text_if("client_request_id", record.client_request_id);
  line.text_if("route", record.route);
  line.text_if("address", record.address);
  line.open("path");
  line.text_if("dept", record.department);
  line.text_if("team", record.team);
  line.text_if("key_id", record.key_id);
  line.close();
  line.open("class");
  line.text_if("requested", record.requested_class);
  line.text_if("effective", record.service_class);
  line.text_if("clamped_by", record.clamped_by);
  line.close();
  line.open("model");
  line.text_if("alias", record.model);
  line.text_if("resolved", record.serves);
  line.close();
  line.text_if("policy", record.policy_revision);
  if (record.choices > 1) line.count("choices", record.choices);
  if (record.prompts > 1) line.count("prompts", record.prompts);
}

void append_count_if(JsonObject& line, std::string_view name, std::uint64_t value) {
  if (value != 0) line.count(name, value);
}

void append_end(JsonObject& line, const RequestRecord& record) {
  line.text("outcome", to_string(record.outcome));
  line.text_if("code", record.code);
  if (record.status != 0) line.integer("status", record.status);
  line.text_if("finish_reason", record.finish_reason);
}

void append_checks(JsonObject& line, const policy::Checks& checks) {
  if (checks.empty()) return;
  line.open_array("checks");
  for (const policy::Check& check : checks) {
    line.open_element();
    line.text("meter", check.meter);
    line.integer("limit", check.limit);
    line.integer("committed", check.committed);
    line.integer("asked", check.asked);
    line.close();
  }
  line.close_array();
}

}  // namespace

void append_refused(JsonObject& line, const RequestRecord& record, std::uint64_t count) {
  append_who(line, record);
  if (count > 1) line.count("count", count);
  line.open("tokens");
  append_count_if(line, "prompt", record.prompt_tokens);
  append_count_if(line, "max", record.max_tokens);
  line.close();
  line.ms_if("queue_ms", record.queue_time());
  append_end(line, record);
  if (!record.refusal) return;
  const policy::Refusal& refusal = *record.refusal;
  line.text_if("meter", refusal.meter);
  line.text_if("scope", refusal.scope);
  if (!refusal.meter.empty()) {
    line.integer("limit", refusal.limit);
    line.integer("committed", refusal.committed);
    line.integer("asked", refusal.asked);
  }
  line.text_if("param", refusal.param);
  line.ms_if("retry_after_ms", refusal.retry_after);
  line.text_if("ticket", record.ticket);
  line.text_if("ticket_use", to_string(refusal.shown));
}

void append_admitted(JsonObject& line, const RequestRecord& record) {
  append_who(line, record);
  line.open("tokens");
  line.count("prompt", record.prompt_tokens);
  append_count_if(line, "max", record.max_tokens);
  if (record.queued) line.integer("est", record.queued->estimated_completion_tokens);
  line.close();
  line.open("queue");
  line.ms_if("wait_ms", record.queue_time());
  if (record.queued) {
    line.integer("position", record.queued->position);
    line.integer("ahead_units", record.queued->ahead_units);
    line.text_if("ticket_use", to_string(record.queued->ticket));
  }
  line.close();
  if (!record.dispatch) return;
  const policy::Dispatch& dispatch = *record.dispatch;
  append_checks(line, dispatch.checks);
  line.open("pick");
  line.text("band", dispatch.pick.class_name);
  line.integer("v", dispatch.pick.v);
  line.integer("v_min", dispatch.pick.v_min);
  line.close();
  line.open("kv");
  line.integer("need", dispatch.kv.need_blocks);
  line.integer("free", dispatch.kv.free_blocks);
  line.integer("capacity", dispatch.kv.capacity_blocks);
  line.close();
}

void append_ended(JsonObject& line, const RequestRecord& record) {
  append_who(line, record);
  line.open("tokens");
  line.count("prompt", record.prompt_tokens);
  if (!record.is_end_unknown) line.count("cached", record.cached_tokens);
  if (!record.is_end_unknown) line.count("output", record.completion_tokens);
  append_count_if(line, "max", record.max_tokens);
  line.close();
  line.ms_if("queue_ms", record.queue_time());
  line.ms_if("prefill_ms", record.prefill_time());
  line.ms_if("decode_ms", record.decode_time());
  line.ms_if("ttft_ms", record.time_to_first_token());
  line.ms_if("tpot_ms", record.time_per_output_token());
  if (!record.is_end_unknown) line.ms("e2e_ms", record.total_time());
  append_count_if(line, "pauses", record.pauses);
  append_end(line, record);
  if (record.is_recovered) line.boolean("recovered", true);
  if (!record.settlement) return;
  line.integer("service_units", record.settlement->service_units);
  if (record.settlement->budgets.empty()) return;
  line.open_array("ledger");
  for (const policy::LedgerLine& budget : record.settlement->budgets) {
    line.open_element();
    line.text("meter", budget.meter);
    line.integer("reserved", budget.reserved);
    line.integer("used", budget.used);
    line.close();
  }
  line.close_array();
}

}  // namespace turnstile::gateway
