// What others may see: rate headers, meters, counts, and the check of all invariants.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "policy/admission.h"
#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

// Keeps the line with the least remaining; on equal remainders the narrowest node's.
void keep_scarcest(std::optional<RateLine>& kept, const Bucket& bucket, Instant now) {
  if (!bucket.limit()) return;
  RateLine line;
  line.limit = bucket.limit()->per_minute;
  line.remaining = std::max<std::int64_t>(0, bucket.available(now));
  line.until_full = bucket.until_full(now);
  line.node = bucket.scope().substr(0, bucket.scope().find('/'));
  if (!kept || line.remaining < kept->remaining) kept = std::move(line);
}

void view_meter(std::vector<MeterView>& views, const Meter& meter) {
  if (meter.capacity()) views.push_back({meter.name(), meter.committed(), *meter.capacity()});
}

void view_bucket(std::vector<MeterView>& views, const Bucket& bucket, Instant now) {
  if (!bucket.limit()) return;
  const std::int64_t capacity = bucket.limit()->capacity;
  views.push_back({bucket.name(), capacity - bucket.available(now), capacity});
}

void view_principal(std::vector<MeterView>& views, const Principal& node, Instant now) {
  view_meter(views, node.inflight);
  for (const auto& [class_index, meter] : node.inflight_by_class) view_meter(views, meter);
  view_meter(views, node.queue);
  view_meter(views, node.queue_tokens);
  view_bucket(views, node.requests, now);
  view_bucket(views, node.tokens, now);
}

}  // namespace

RateView Admission::rate_view(Instant now, std::string_view key_id) const {
  RateView view;
  const KeyState* key = state_->principals.find(key_id);
  if (key == nullptr) return view;
  for (const Principal* node : std::as_const(state_->principals).path(*key)) {
    keep_scarcest(view.requests, node->requests, now);
    keep_scarcest(view.tokens, node->tokens, now);
  }
  return view;
}

std::vector<MeterView> Admission::meters(Instant now, Detail detail) const {
  std::vector<MeterView> views;
  view_meter(views, state_->kv_blocks);
  view_meter(views, state_->sequence_slots);
  view_meter(views, state_->queue_all);
  for (const Meter& meter : state_->queue_by_class) view_meter(views, meter);
  for (const Meter& meter : state_->queue_tokens_by_class) view_meter(views, meter);
  state_->principals.for_each_shared(
      [&](const Principal& node) { view_principal(views, node, now); });
  if (detail == Detail::WithKeys) {
    state_->principals.for_each_key([&](const KeyState& key) {
      if (!key.retired) view_principal(views, key, now);
    });
  }
  return views;
}

std::int64_t Admission::queued() const {
  return static_cast<std::int64_t>(state_->requests.size()) - state_->running;
}

std::int64_t Admission::running() const { return state_->running; }

std::int64_t Admission::untold() const {
  return std::ranges::count_if(state_->unreported, [](const Outcome& outcome) {
    return std::holds_alternative<LateRefusal>(outcome);
  });
}

const PolicySet& Admission::policy() const { return *state_->policy; }

namespace {

// What the live requests hold of every meter and bucket, added up anew.
struct Recount {
  std::map<const Meter*, std::int64_t> meters;
  std::map<const Bucket*, std::int64_t> buckets;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t reading_without_place = 0;
  std::map<const KeyState*, std::int64_t> live;
};

// Most meters are held by nobody, and are not entered for being asked for.
template <typename Holder>
std::int64_t sum_of(const std::map<const Holder*, std::int64_t>& sums, const Holder& holder) {
  const auto it = sums.find(&holder);
  return it == sums.end() ? 0 : it->second;
}

void recount(const Request& request, Recount& count) {
  for (const Permit* permit : {&request.place, &request.lease}) {
    for (const Permit::Entry& entry : permit->entries()) {
      count.meters[entry.meter] += entry.amount;
    }
  }
  for (const Ledger::Line& line : request.ledger.lines()) {
    count.buckets[line.budget.bucket] += line.debited;
  }
  for (const Principal* node : request.path) count.buckets[&node->requests] += 1;
  count.live[request.key] += 1;
  count.running += request.phase == Phase::Running ? 1 : 0;
  const bool waits = request.phase == Phase::Waiting || request.phase == Phase::Paused;
  count.waiting += waits ? 1 : 0;
  if (request.phase == Phase::Reading && request.place.empty()) count.reading_without_place += 1;
}

std::optional<std::string> phase_fault(const Request& request) {
  const bool running = request.phase == Phase::Running;
  if (running == request.lease.empty()) return "a request holds a lease iff it runs";
  if (running && !request.place.empty()) return "a running request keeps its place in the queue";
  if (request.phase == Phase::Waiting && request.place.empty()) return "a wait without a place";
  if (request.phase == Phase::Paused && !request.place.empty()) return "a paused request queues";
  return std::nullopt;
}

std::optional<std::string> meter_fault(const Meter& meter, const Recount& count) {
  if (meter.committed() != sum_of(count.meters, meter)) {
    return meter.name() + ": committed is not the sum of the live permits";
  }
  return std::nullopt;
}

std::optional<std::string> principal_fault(const Principal& node, const Recount& count) {
  for (const Meter* meter : {&node.inflight, &node.queue, &node.queue_tokens}) {
    if (auto fault = meter_fault(*meter, count)) return fault;
  }
  for (const auto& [class_index, meter] : node.inflight_by_class) {
    if (auto fault = meter_fault(meter, count)) return fault;
    if (!meter.fits(0)) return meter.name() + ": above capacity";
  }
  for (const Bucket* bucket : {&node.requests, &node.tokens}) {
    if (bucket->held() != sum_of(count.buckets, *bucket)) {
      return bucket->name() + ": held is not the sum of the live debits";
    }
  }
  return std::nullopt;
}

std::optional<std::string> gate_fault(const ShareTree& shares, const Principal& node) {
  for (ClassIndex c = 0; c < shares.class_count(); ++c) {
    if (shares.gate(node.share, c) != node.may_run(c)) {
      return node.scope + ": the gate does not follow the inflight meters";
    }
  }
  return std::nullopt;
}

// The share tree's waiting units are those of the waiting room.
std::optional<std::string> waiting_units_fault(const ShareTree& shares, const WaitingRoom& room) {
  for (ClassIndex c = 0; c < shares.class_count(); ++c) {
    std::int64_t units = 0;
    room.for_each([&](const WaitingRoom::Entry& entry) {
      if (entry.class_index == c) units += entry.units;
    });
    if (shares.waiting_units(ShareTree::kRoot, c) != units) return "waiting units are miscounted";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Admission::State::releases_fault() const {
  if (releases_are_stale) return std::nullopt;
  if (releases.size() != on_engine.size()) return "expected ends of others than those that run";
  for (const Release& release : releases) {
    const auto it = requests.find(release.id);
    if (it == requests.end()) return "the expected end of a request that is gone";
    const Request& request = it->second;
    if (release.after != expected_rest(request) || release.slots != request.size.choices ||
        release.blocks != request.lease.held(kv_blocks) || release.path != &request.path) {
      return "an expected end is stale and does not say so";
    }
  }
  return std::nullopt;
}

// What is still to be told is true of its request as it stands.
std::optional<std::string> Admission::State::unreported_fault() const {
  std::int64_t starts = 0;
  std::set<RequestId> refused;
  for (const Outcome& outcome : unreported) {
    const RequestId id = std::visit([](const auto& told) { return told.id; }, outcome);
    const auto it = requests.find(id);
    if (std::holds_alternative<LateRefusal>(outcome)) {
      if (it != requests.end()) return "a refusal of a request that is here";
      if (!refused.insert(id).second) return "a request refused twice";
      continue;
    }
    if (it == requests.end()) return "something to tell about a request that is gone";
    const Request& request = it->second;
    const bool is_start = std::holds_alternative<Dispatch>(outcome);
    const bool is_true = is_start ? request.phase == Phase::Running && request.unreported
                         : std::holds_alternative<Pause>(outcome) ? request.phase == Phase::Paused
                         : std::holds_alternative<Exhausted>(outcome) ? request.exhausted
                                                                      : false;
    if (!is_true) return "something to tell that is no longer so";
    starts += is_start ? 1 : 0;
  }
  const auto untold_starts = std::ranges::count_if(
      requests, [](const auto& item) { return item.second.unreported; });
  if (untold_starts != starts) return "a start that nobody is told";
  return std::nullopt;
}

std::optional<std::string> Admission::check_invariants(Instant now) const {
  const State& state = *state_;
  if (now < state.latest) return "time went back";
  Recount count;
  for (const auto& [id, request] : state.requests) {
    if (id != request.id) return "a request is filed under another id";
    if (auto fault = phase_fault(request)) return fault;
    recount(request, count);
  }
  if (count.running != state.running) return "running requests are miscounted";
  if (count.waiting != state.room.size()) return "the waiting room and the requests disagree";
  if (count.reading_without_place != state.reading_without_place) {
    return "requests that are read without a place are miscounted";
  }

  // These never shrink while requests hold them, so they are never over capacity.
  for (const Meter* meter : {&state.kv_blocks, &state.sequence_slots, &state.queue_all}) {
    if (auto fault = meter_fault(*meter, count)) return fault;
    if (!meter->fits(0)) return meter->name() + ": committed is above capacity";
  }
  for (const auto* meters : {&state.queue_by_class, &state.queue_tokens_by_class}) {
    for (const Meter& meter : *meters) {
      if (auto fault = meter_fault(meter, count)) return fault;
      if (!meter.fits(0)) return meter.name() + ": committed is above capacity";
    }
  }
  std::optional<std::string> fault;
  state.principals.for_each_shared([&](const Principal& node) {
    if (!fault) fault = principal_fault(node, count);
    if (!fault && !node.inflight.fits(0)) fault = node.inflight.name() + ": above capacity";
    if (!fault) fault = gate_fault(state.shares, node);
  });
  state.principals.for_each_key([&](const KeyState& key) {
    if (!fault) fault = principal_fault(key, count);
    if (!fault && key.live_requests != sum_of(count.live, key)) {
      fault = key.scope + ": live miscounted";
    }
    const bool is_idle = key.live_requests == 0 && key.tickets == 0;
    if (!fault && key.retired && is_idle) fault = key.scope + ": kept for nothing";
    if (!fault) fault = gate_fault(state.shares, key);
    for (ClassIndex c = 0; c < state.policy->classes.size() && !fault; ++c) {
      if (state.shares.backlog(key.share, c) == state.room.empty(key.share, c)) {
        fault = key.scope + ": the share tree and the waiting room disagree";
      }
    }
  });
  if (fault) return fault;
  if (auto units = waiting_units_fault(state.shares, state.room)) return units;
  if (auto in_tree = state.shares.check_invariants()) return in_tree;
  if (auto in_book = state.tickets.check_invariants()) return in_book;
  if (auto awaited = state.awaited_fault()) return awaited;
  if (auto ends = state.releases_fault()) return ends;
  if (auto untold = state.unreported_fault()) return untold;
  return state.room.check_invariants();
}

}  // namespace turnstile::policy
