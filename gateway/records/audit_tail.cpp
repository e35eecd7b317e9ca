#include "gateway/records/audit_tail.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>

#include "gateway/records/audit_line.h"
#include "gateway/records/line_reader.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {
namespace {

namespace json = boost::json;

std::optional<std::uint64_t> count_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->get_int64());
}

// Longer than any that the server writes, and so short that a record of nothing but such texts,
// each character of them escaped, is far below kMaxAuditLineBytes.
constexpr std::size_t kMaxTextBytes = 256;

// Empty for what is no text, and for one that no server can have written.
std::string text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_string()) return {};
  const json::string& text = value->get_string();
  if (text.size() > kMaxTextBytes) return {};
  return std::string(text.data(), text.size());
}

const json::object& object_at(const json::object& object, std::string_view name) {
  static const json::object kNone;
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value != nullptr && value->is_object() ? value->get_object() : kNone;
}

json::value parsed(std::string_view line) {
  json::error_code error;
  json::value value = json::parse(json::string_view(line.data(), line.size()), error);
  return error ? json::value() : value;
}

std::optional<policy::Duration> ms_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_double()) return std::nullopt;
  return std::chrono::round<policy::Duration>(
      std::chrono::duration<double, std::milli>(std::clamp(value->get_double(), 0.0, 1e9)));
}

// Where the log must be read from by what this checkpoint says; absent when it does not say.
std::optional<std::uint64_t> reads_from(std::string_view line, std::uint64_t seq) {
  const json::value value = parsed(line);
  if (!value.is_object()) return std::nullopt;
  const auto open = count_at(value.get_object(), "open");
  if (!open) return std::nullopt;
  return *open == 0 ? seq : count_at(value.get_object(), "open_from");
}

// Calls `see` with each record of the file.
template <typename See>
tl::expected<void, std::string> each_record(const std::filesystem::path& path, const See& see) {
  return each_line(path, [&see](LineReader::Next next, std::string_view line) {
    if (next != LineReader::Next::Line) return true;
    const auto parts = take_apart(line);
    return !parts || see(line, *parts);
  });
}

struct Admitted {
  std::uint64_t seq = 0;
  std::string line;
};

// The request of a line of requests.jsonl, which stands behind `ts`.
std::string_view request_of_line(std::string_view line) {
  constexpr std::string_view kBegin = ",\"request_id\":\"";
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + kBegin.size());
  return line.substr(0, line.find('"'));
}

// A file that cannot be read has no lines: the log is what counts.
void add_request_lines(const std::filesystem::path& file, std::vector<UnendedRequest>& unended) {
  std::unordered_map<std::string_view, UnendedRequest*> by_id;
  for (UnendedRequest& request : unended) {
    by_id.emplace(subject_of(request.admitted).request_id, &request);
  }
  const auto see = [&by_id](LineReader::Next next, std::string_view line) {
    const auto found = by_id.find(request_of_line(line));
    if (next == LineReader::Next::Line && found != by_id.end()) found->second->request_line = line;
    return true;
  };
  static_cast<void>(each_line(file, see, kMaxTailBytes));
}

}  // namespace

tl::expected<std::vector<UnendedRequest>, std::string> unended_requests(
    std::span<const AuditFileName> files, const std::filesystem::path& requests_file) {
  const std::size_t earliest = files.size() - std::min(files.size(), kMaxTailFiles);
  std::optional<std::uint64_t> from;
  std::size_t first = files.size();
  while (first > earliest && !from) {
    --first;
    const auto read = each_record(files[first].path, [&](std::string_view line, const auto& parts) {
      if (subject_of(line).kind != "checkpoint") return true;
      if (const auto said = reads_from(line, parts.seq)) from = said;
      return true;
    });
    if (!read) return tl::unexpected(read.error());
  }
  // Back to the file in which that record stands.
  while (first > earliest) {
    std::uint64_t first_seq = 0;
    const auto read = each_record(files[first].path, [&](std::string_view, const auto& parts) {
      first_seq = parts.seq;
      return false;
    });
    if (!read) return tl::unexpected(read.error());
    if (first_seq != 0 && first_seq <= from.value_or(0)) break;
    --first;
  }

  std::unordered_map<std::string, Admitted> open;
  for (; first < files.size(); ++first) {
    const auto read = each_record(files[first].path, [&](std::string_view line, const auto& parts) {
      if (parts.seq < from.value_or(0)) return true;
      const AuditSubject subject = subject_of(line);
      if (subject.kind == "admitted" && open.size() < kMaxTailRequests) {
        open[std::string(subject.request_id)] = {parts.seq, std::string(line)};
      } else if (subject.kind == "ended") {
        open.erase(std::string(subject.request_id));
      }
      return true;
    });
    if (!read) return tl::unexpected(read.error());
  }
  std::vector<Admitted> in_order;
  in_order.reserve(open.size());
  for (auto& [id, admitted] : open) in_order.push_back(std::move(admitted));
  std::ranges::sort(in_order, {}, &Admitted::seq);
  std::vector<UnendedRequest> unended;
  unended.reserve(in_order.size());
  for (Admitted& admitted : in_order) unended.push_back({std::move(admitted.line), {}});
  if (!unended.empty()) add_request_lines(requests_file, unended);
  return unended;
}

bool RecoveredRecord::read(const UnendedRequest& request) {
  const json::value value = parsed(request.admitted);
  if (!value.is_object()) return false;
  const json::object& object = value.get_object();
  RequestRecord& record = record_;
  record = {};
  record.is_recovered = true;
  record.request_id = text_at(object, "request_id");
  if (text_at(object, "kind") != "admitted" || record.request_id.empty()) return false;
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

  const policy::Duration waited =
      ms_at(object_at(object, "queue"), "wait_ms").value_or(policy::Duration{});
  record.dispatched = record.arrived + waited;
  if (const auto admitted = parse_timestamp(text_at(object, "ts"))) {
    record.arrived_wall = *admitted - waited;
  }
  const json::value line = parsed(request.request_line);
  if (line.is_object()) {
    read_end(line.get_object());
  } else {
    record.outcome = RequestOutcome::Fault;
    record.code = "internal_error";
    record.status = 500;
    record.is_end_unknown = true;
  }
  return true;
}

void RecoveredRecord::read_end(const json::object& line) {
  const std::string outcome = text_at(line, "outcome");
  for (const RequestOutcome known : {RequestOutcome::Completed, RequestOutcome::ClientGone,
                                     RequestOutcome::TimedOut, RequestOutcome::Fault}) {
    if (outcome == to_string(known)) record_.outcome = known;
  }
  code_ = text_at(line, "code");
  record_.code = code_;
  finish_reason_ = text_at(line, "finish_reason");
  record_.finish_reason = finish_reason_;
  record_.status = static_cast<int>(count_at(line, "status").value_or(0));
  record_.cached_tokens = count_at(line, "cached_tokens").value_or(0);
  record_.completion_tokens = count_at(line, "completion_tokens").value_or(0);
  record_.pauses = static_cast<std::uint32_t>(count_at(line, "pauses").value_or(0));
  if (const auto e2e = ms_at(line, "e2e_ms")) record_.ended = record_.arrived + *e2e;
  if (const auto prefill = ms_at(line, "prefill_ms")) {
    record_.first_token = *record_.dispatched + *prefill;
    record_.last_token =
        *record_.first_token + ms_at(line, "decode_ms").value_or(policy::Duration{});
  }
}

}  // namespace turnstile::gateway
