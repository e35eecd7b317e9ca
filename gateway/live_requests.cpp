#include "gateway/live_requests.h"

#include <algorithm>
#include <cassert>
#include <variant>

#include "gateway/api/generation_request.h"

namespace turnstile::gateway {

static_assert(kMaxPrompts <= std::size_t{1} << kPromptIndexBits,
              "each prompt of a request has its own engine id");

void LiveRequests::add(LiveRequest& request) {
  const bool is_new = by_id_.emplace(static_cast<std::uint64_t>(request.id()), &request).second;
  assert(is_new && "ids are never used twice");
}

void LiveRequests::remove(policy::RequestId id) { by_id_.erase(static_cast<std::uint64_t>(id)); }

LiveRequest* LiveRequests::find(policy::RequestId id) {
  const auto found = by_id_.find(static_cast<std::uint64_t>(id));
  return found == by_id_.end() ? nullptr : found->second;
}

bool LiveRequests::take_reports(EnginePort& engine, policy::Admission& admission,
                                Metrics& metrics, policy::Instant now) {
  bool has_taken = false;
  while (std::unique_ptr<StepReport> report = engine.try_take()) {
    has_taken = true;
    read(*report, now);
    admission.on_step(now, report->ended - report->began);
    metrics.on_step(report->output.stats, report->ended - report->began);
    engine.give_back(std::move(report));
  }
  return has_taken;
}

void LiveRequests::read(const StepReport& report, policy::Instant now) {
  touched_.clear();
  LiveRequest* request = nullptr;
  std::optional<policy::RequestId> current;
  for (const engine::Event& event : report.output.events) {
    const policy::RequestId id{event.request >> kPromptIndexBits};
    if (current != id) {
      current = id;
      request = find(id);
      const bool is_new = request != nullptr &&
                          std::find(touched_.begin(), touched_.end(), request) == touched_.end();
      if (is_new) touched_.push_back(request);
    }
    if (request != nullptr) request->on_event(event, report.output, now);
  }
  for (LiveRequest* changed : touched_) changed->end_of_step(now);
}

void LiveRequests::dispatch(policy::Admission& admission, policy::Instant now) {
  outcomes_.clear();
  admission.dispatch(now, outcomes_);
  for (policy::Outcome& outcome : outcomes_) {
    const policy::RequestId id = std::visit([](const auto& told) { return told.id; }, outcome);
    LiveRequest* request = find(id);
    assert(request != nullptr && "a request that leaves tells admission first");
    if (auto* dispatch = std::get_if<policy::Dispatch>(&outcome)) {
      request->on_dispatched(*dispatch);
    } else if (auto* refusal = std::get_if<policy::LateRefusal>(&outcome)) {
      request->on_refused(std::move(*refusal));
    } else if (std::holds_alternative<policy::Pause>(outcome)) {
      request->on_paused();
    } else if (std::holds_alternative<policy::Resume>(outcome)) {
      request->on_resumed();
    } else {
      request->on_budget_exhausted();
    }
  }
}

void LiveRequests::revoke_keys(
    const std::function<bool(std::string_view key_id)>& is_cancelled) {
  for (const auto& [id, request] : by_id_) {
    if (is_cancelled(request->record().key_id)) request->on_key_revoked();
  }
}

void LiveRequests::fail_all() {
  for (const auto& [id, request] : by_id_) request->on_engine_fault();
}

}  // namespace turnstile::gateway
