#include "gateway/records/recovered_record.h"

#include <boost/json/value.hpp>

#include "gateway/records/json_members.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {

namespace json = boost::json;

bool RecoveredRecord::read(const UnendedRequest& request) {
  const json::object object = parsed_object(request.admitted);
  if (text_at(object, "kind") != "admitted" || !read_request(object)) return false;
  const policy::Duration waited =
      ms_at(object_at(object, "queue"), "wait_ms").value_or(policy::Duration{});
  record_.dispatched = record_.arrived + waited;
  if (const auto admitted = parse_timestamp(text_at(object, "ts"))) {
    record_.arrived_wall = *admitted - waited;
  }
  const json::object line = parsed_object(request.request_line);
  if (!line.empty()) {
    read_end(line);
  } else {
    record_.outcome = RequestOutcome::Fault;
    record_.code = "internal_error";
    record_.status = 500;
    record_.is_end_unknown = true;
  }
  return true;
}

bool RecoveredRecord::read_end_record(std::string_view line) {
  const json::object object = parsed_object(line);
  const std::string kind = text_at(object, "kind");
  if ((kind != "ended" && kind != "refused") || !read_request(object)) return false;
  const policy::Duration waited = ms_at(object, "queue_ms").value_or(policy::Duration{});
  const policy::Duration lasted = ms_at(object, "e2e_ms").value_or(waited);
  record_.dispatched = record_.arrived + waited;
  record_.ended = record_.arrived + lasted;
  if (const auto ended = parse_timestamp(text_at(object, "ts"))) {
    record_.arrived_wall = *ended - lasted;
  }
  read_end(object);
  const json::object& tokens = object_at(object, "tokens");
  const auto cached = count_at(tokens, "cached");
  record_.cached_tokens = cached.value_or(0);
  record_.completion_tokens = count_at(tokens, "output").value_or(0);
  record_.is_end_unknown = kind == "ended" && !cached;
  count_ = count_at(object, "count").value_or(1);
  return true;
}

// What every record of a request has.
bool RecoveredRecord::read_request(const json::object& object) {
  RequestRecord& record = record_;
  record = {};
  count_ = 1;
  record.is_recovered = true;
  record.request_id = text_at(object, "request_id");
  if (record.request_id.empty()) return false;
  record.client_request_id = text_at(object, "client_request_id");
  const std::string route = text_at(object, "route");
  for (const std::string_view known : {"/v1/chat/completions", "/v1/completions"}) {
    if (route == known) record.route = known;
  }
  record.address = text_at(object, "address");
  const json::object& path = object_at(object, "path");
  record.department = text_at(path, "dept");
  record.team = text_at(path, "team");
  record.key_id = text_at(path, "key_id");
  const json::object& service_class = object_at(object, "class");
  record.requested_class = text_at(service_class, "requested");
  record.service_class = text_at(service_class, "effective");
  record.clamped_by = text_at(service_class, "clamped_by");
  const json::object& model = object_at(object, "model");
  record.model = text_at(model, "alias");
  record.serves = text_at(model, "resolved");
  record.policy_revision = text_at(object, "policy");
  record.choices = static_cast<std::uint32_t>(count_at(object, "choices").value_or(1));
  record.prompts = static_cast<std::uint32_t>(count_at(object, "prompts").value_or(1));
  record.prompt_tokens = count_at(object_at(object, "tokens"), "prompt").value_or(0);
  record.max_tokens = count_at(object_at(object, "tokens"), "max").value_or(0);
  return true;
}

// What the log and requests.jsonl call by the same names.
void RecoveredRecord::read_end(const json::object& object) {
  const std::string outcome = text_at(object, "outcome");
  for (const RequestOutcome known :
       {RequestOutcome::Refused, RequestOutcome::Completed, RequestOutcome::ClientGone,
        RequestOutcome::TimedOut, RequestOutcome::Fault}) {
    if (outcome == to_string(known)) record_.outcome = known;
  }
  code_ = text_at(object, "code");
  record_.code = code_;
  finish_reason_ = text_at(object, "finish_reason");
  record_.finish_reason = finish_reason_;
  record_.status = static_cast<int>(count_at(object, "status").value_or(0));
  record_.cached_tokens = count_at(object, "cached_tokens").value_or(0);
  record_.completion_tokens = count_at(object, "completion_tokens").value_or(0);
  record_.pauses = static_cast<std::uint32_t>(count_at(object, "pauses").value_or(0));
  if (const auto e2e = ms_at(object, "e2e_ms")) record_.ended = record_.arrived + *e2e;
  const auto prefill = ms_at(object, "prefill_ms");
  if (!prefill) return;
  const policy::Duration decode = ms_at(object, "decode_ms").value_or(policy::Duration{});
  record_.first_token = *record_.dispatched + *prefill;
  record_.last_token = *record_.first_token + decode;
  // The time of a token is that of the longest choice, whose length no line says.
  const auto of_a_token = ms_at(object, "tpot_ms").value_or(policy::Duration{});
  if (of_a_token <= policy::Duration{}) return;
  const auto gaps = (decode + of_a_token / 2) / of_a_token;
  record_.longest_choice_tokens = static_cast<std::uint64_t>(gaps) + 1;
}

}  // namespace turnstile::gateway
