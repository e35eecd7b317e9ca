#include "tests/sim/policy_plant.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace turnstile::policy::sim {
namespace {

// A step in which the invariants are checked; they cost more than the step.
constexpr std::uint64_t kCheckEvery = 64;

}  // namespace

Plant::Plant(std::shared_ptr<const PolicySet> policy, EngineFacts engine,
             const std::vector<KeyNode>& keys, StepModel model)
    : policy_(std::move(policy)), admission_(policy_, std::move(engine)), model_(model) {
  admission_.set_keys(now_, keys);
}

void Plant::submit(PlantRequest request) {
  const Instant at = std::max(request.arrival, now_);
  request.arrival = at;
  to_come_.emplace(at, std::move(request));
}

std::int64_t Plant::units_of_class(const std::string& name) const {
  const auto found = units_by_class_.find(name);
  return found == units_by_class_.end() ? 0 : found->second;
}

std::int64_t Plant::units_of_key(const std::string& key) const {
  const auto found = units_by_key_.find(key);
  return found == units_by_key_.end() ? 0 : found->second;
}

void Plant::run(Instant until) {
  while (!failure_ && now_ < until && (!to_come_.empty() || !live_.empty())) {
    while (!to_come_.empty() && to_come_.begin()->first <= now_) {
      PlantRequest request = std::move(to_come_.begin()->second);
      to_come_.erase(to_come_.begin());
      arrive(std::move(request));
    }
    dispatch();
    const bool runs =
        std::ranges::any_of(live_, [](const auto& item) { return item.second.runs; });
    if (runs) {
      step();
      continue;
    }
    Instant next = Instant::max();
    if (!to_come_.empty()) next = to_come_.begin()->first;
    if (const auto deadline = admission_.next_deadline()) next = std::min(next, *deadline);
    if (next == Instant::max()) {
      if (!live_.empty()) failure_ = "requests wait for nothing";
      return;
    }
    now_ = std::max(now_, next);
  }
}

void Plant::arrive(PlantRequest request) {
  PlantResult result;
  result.request = std::move(request);
  const PlantRequest& asked = result.request;
  Ask ask{asked.key, std::nullopt, std::nullopt};
  if (!asked.class_name.empty()) ask.requested_class = asked.class_name;
  ask.ticket = asked.ticket;
  const auto resolved = admission_.resolve(now_, ask);
  const RequestId id{++last_id_};
  TokenFacts tokens;
  tokens.prompt_tokens = asked.prompt;
  tokens.max_tokens = asked.max_tokens;
  const auto queued = resolved ? admission_.admit(now_, id, *resolved, tokens)
                               : tl::expected<Queued, Refusal>(tl::unexpected(resolved.error()));
  if (!queued) {
    result.refused = queued.error().code;
    result.retry_after = queued.error().retry_after;
    result.ticket = queued.error().ticket;
    results_.push_back(result);
    on_end(result);
    return;
  }
  if (queued->prediction) result.predicted = queued->prediction->likely;
  Live& live = live_[id];
  live.result = std::move(result);
  live.class_name = resolved->class_name;
  live.class_index = resolved->class_index;
  live.to_compute = tokens.prompt_tokens;
  live.prompt_left = tokens.prompt_tokens;
}

void Plant::dispatch() {
  outcomes_.clear();
  admission_.dispatch(now_, outcomes_);
  for (const Outcome& outcome : outcomes_) {
    const RequestId id = std::visit([](const auto& told) { return told.id; }, outcome);
    Live& live = live_.at(id);
    if (const auto* late = std::get_if<LateRefusal>(&outcome)) {
      live.result.refused = late->refusal.code;
      live.result.retry_after = late->refusal.retry_after;
      live.result.ticket = late->refusal.ticket;
      const PlantResult result = live.result;
      live_.erase(id);
      results_.push_back(result);
      on_end(result);
    } else if (std::holds_alternative<Pause>(outcome)) {
      live.runs = false;
      live.result.pauses += 1;
      live.to_compute = live.result.request.prompt + live.generated;
    } else if (std::holds_alternative<Exhausted>(outcome)) {
      live.result.request.length = live.generated;  // the next step ends it
    } else {
      live.runs = true;
      if (std::holds_alternative<Dispatch>(outcome)) live.result.dispatched = now_;
    }
  }
}

void Plant::step() {
  std::vector<std::pair<ClassIndex, RequestId>> order;
  for (const auto& [id, live] : live_) {
    if (live.runs) order.emplace_back(live.class_index, id);
  }
  std::ranges::sort(order);
  std::int64_t decoding = 0;
  std::int64_t chunk = model_.chunk_tokens;
  std::vector<std::pair<RequestId, std::int64_t>> computed;
  for (const auto& [class_index, id] : order) {
    Live& live = live_.at(id);
    if (live.to_compute == 0) {
      decoding += 1;
      continue;
    }
    const std::int64_t part = std::min(live.to_compute, chunk);
    chunk -= part;
    computed.emplace_back(id, part);
  }
  const std::int64_t prompt_tokens = model_.chunk_tokens - chunk;
  const Duration took = model_.base + model_.per_decode * decoding +
                        model_.per_prompt_token * prompt_tokens;
  now_ += took;
  for (const auto& [class_index, id] : order) {
    Live& live = live_.at(id);
    if (live.to_compute > 0) continue;
    if (!live.result.first_token) live.result.first_token = now_;
    live.generated += 1;
    admission_.on_tokens(now_, id, 0, 1);
    count(live, 2);
  }
  for (const auto& [id, part] : computed) {
    Live& live = live_.at(id);
    if (!std::exchange(live.bound, true)) admission_.on_bound(now_, id, 0, 0);
    live.to_compute -= part;
    const std::int64_t first_time = std::min(part, live.prompt_left);
    live.prompt_left -= first_time;
    if (first_time > 0) admission_.on_tokens(now_, id, first_time, 0);
    count(live, first_time);
  }
  admission_.on_step(now_, took);
  for (const auto& [class_index, id] : order) {
    Live& live = live_.at(id);
    if (live.generated >= live.result.request.length) finish(id, live);
  }
  if (last_id_ % kCheckEvery == 0) failure_ = admission_.check_invariants(now_);
}

void Plant::finish(RequestId id, Live& live) {
  live.result.ended = now_;
  const auto settlement = admission_.on_ended(
      now_, id, EndKind::Completed, {live.result.request.prompt, live.generated});
  live.result.generated = live.generated;
  if (!settlement->budgets.empty()) live.result.charged = settlement->budgets[0].used;
  const PlantResult result = live.result;
  live_.erase(id);
  results_.push_back(result);
  on_end(result);
}

void Plant::count(const Live& live, std::int64_t units) {
  units_by_class_[live.class_name] += units;
  units_by_key_[live.result.request.key] += units;
  units_ += units;
}

}  // namespace turnstile::policy::sim
