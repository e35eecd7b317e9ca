#include "tests/sim/spine_books.h"

#include <map>

#include <boost/json.hpp>

namespace turnstile::tests {
namespace {

namespace json = boost::json;

struct AuditSeen {
  int refused = 0;
  int admitted = 0;
  int ended = 0;
};

std::uint64_t count_of(SpineWorld& world, std::string_view outcome) {
  const std::string label = "outcome=\"" + std::string(outcome) + "\"";
  return static_cast<std::uint64_t>(world.metric("turnstile_requests_finished_total", label));
}

std::optional<std::string> check_audit(const SpineWorld& world, SpineSimCounts& counts) {
  std::map<std::string, AuditSeen> requests;
  std::uint64_t coalesced = 0;
  for (const std::string& line : world.lines.lines(gateway::LineStream::Audit)) {
    const json::object record = json::parse(line).as_object();
    const json::string& kind = record.at("kind").as_string();
    if (kind != "refused" && kind != "admitted" && kind != "ended") continue;
    if (const json::value* count = record.if_contains("count")) {
      coalesced += json::value_to<std::uint64_t>(*count);
      continue;
    }
    AuditSeen& seen = requests[std::string(record.at("request_id").as_string())];
    if (kind == "refused") ++seen.refused;
    if (kind == "admitted") ++seen.admitted;
    if (kind == "ended") {
      if (seen.ended > 0) return "two ends of one request";
      ++seen.ended;
    }
    if (kind == "admitted" && seen.ended > 0) return "admitted after the end";
  }
  for (const auto& [id, seen] : requests) {
    const bool was_refused = seen.refused == 1 && seen.admitted == 0 && seen.ended == 0;
    const bool has_ended = seen.refused == 0 && seen.admitted <= 1 && seen.ended == 1;
    if (!was_refused && !has_ended) return "request " + id + " has another number of audit lines";
  }
  if (requests.size() + coalesced != counts.arrived) {
    return "audit knows " + std::to_string(requests.size() + coalesced) + " requests, metrics " +
           std::to_string(counts.arrived);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_live(SpineWorld& world) {
  const gateway::SpineContext& context = world.context;
  if (auto broken = context.admission.check_invariants(world.clock.now())) return broken;
  if (auto broken = context.texts.check_invariants()) return broken;
  const auto held = static_cast<std::size_t>(context.admission.queued() +
                                             context.admission.running() +
                                             context.admission.untold());
  if (context.live.size() != held) {
    return std::to_string(context.live.size()) + " live requests, but policy holds " +
           std::to_string(held);
  }
  return std::nullopt;
}

std::optional<std::string> check_balance(SpineWorld& world) {
  const double arrived = world.metric("turnstile_requests_arrived_total");
  const double ended = world.metric("turnstile_requests_finished_total");
  const double queued = world.metric("turnstile_requests_queued");
  const double running = world.metric("turnstile_requests_running");
  if (arrived == ended + queued + running) return std::nullopt;
  return "arrived " + std::to_string(arrived) + " != ended " + std::to_string(ended) +
         " + queued " + std::to_string(queued) + " + running " + std::to_string(running);
}

std::optional<std::string> check_end(SpineWorld& world, SpineSimCounts& counts) {
  if (world.sessions->size() != 0) return "a connection that does not end";
  if (world.context.open_requests != 0) return "an open request that is over";
  if (world.context.live.size() != 0) return "a live request that is over";
  if (world.context.admission.running() != 0) return "a permit that was kept";
  if (world.context.admission.queued() != 0) return "a place that was kept";
  if (world.context.bodies.held_bytes() != 0) return "bytes of a body that were kept";
  if (world.context.texts.waiting() + world.context.texts.running() != 0) {
    return "a text is worked on for nobody";
  }
  if (world.context.deadlines.size() != 0) return "a deadline of nobody";
  if (!world.engine.fault() && world.engine.open_requests() != 0) {
    return "the engine computes for nobody";
  }
  if (auto broken = check_balance(world)) return broken;
  counts.arrived = static_cast<std::uint64_t>(world.metric("turnstile_requests_arrived_total"));
  counts.refused = count_of(world, "refused");
  counts.completed = count_of(world, "completed");
  counts.client_gone = count_of(world, "client_gone");
  counts.timed_out = count_of(world, "timed_out");
  counts.fault = count_of(world, "fault");
  const std::uint64_t ends = counts.refused + counts.completed + counts.client_gone +
                             counts.timed_out + counts.fault;
  if (ends != counts.arrived) return "an arrived request without its outcome";
  return check_audit(world, counts);
}

}  // namespace turnstile::tests
