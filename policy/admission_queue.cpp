// The waiting side: may it start at once, is there a place, and who is displaced for it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/admission_state.h"
#include "policy/arrival_checks.h"

namespace turnstile::policy {
namespace {

// Who lost a place may come back soon: the flood that took it passes quickly or the next answer
// says more.
constexpr Duration kRetryAfterDisplaced = std::chrono::seconds(1);

Refusal no_place(const Meter& meter, std::optional<Duration> retry_after) {
  Refusal refusal;
  refusal.code = RefusalCode::QueueFull;
  refusal.meter = meter.name();
  refusal.scope = meter.scope();
  refusal.limit = meter.capacity().value_or(0);
  refusal.committed = meter.committed();
  refusal.asked = 1;
  refusal.retry_after = retry_after;
  return refusal;
}

}  // namespace

// Narrowest first: key, team, department, class, all.
std::array<Meter*, 5> Admission::State::queue_meters(const Request& request) {
  return {&request.path[0]->queue, &request.path[1]->queue, &request.path[2]->queue,
          &queue_by_class[request.class_index], &queue_all};
}

bool Admission::State::passes_gates(const Request& request) const {
  return std::ranges::all_of(request.path,
                             [](const Principal* node) { return node->inflight.fits(1); });
}

bool Admission::State::fits_engine(const RequestSize& size) const {
  return sequence_slots.fits(size.choices) && kv_blocks.fits(size.kv_blocks);
}

// True when nothing that may start waits in this class or a higher one: the request would be next.
static bool nobody_ahead(const ShareTree& shares, ClassIndex class_index) {
  for (ClassIndex c = 0; c <= class_index; ++c) {
    if (shares.ready(ShareTree::kRoot, c)) return false;
  }
  return true;
}

bool Admission::State::can_start(const Request& request) const {
  return nobody_ahead(shares, request.class_index) && passes_gates(request) &&
         fits_engine(request.size);
}

// Before the size is known. Bounded by the free slots, so that no more prompts are tokenized
// without a place than could run.
bool Admission::State::may_start_soon(const Request& request) const {
  return nobody_ahead(shares, request.class_index) && passes_gates(request) &&
         sequence_slots.fits(reading_without_place + 1);
}

// Takes the budgets, and then either the lease or a place. On refusal nothing of this is taken.
std::optional<Refusal> Admission::State::start_or_wait(Instant now, Request& request,
                                                       Queued& queued) {
  assert(request.phase == Phase::Reading && "a request is queued once");
  queued.max_tokens = request.size.max_tokens;
  queued.kv_blocks = request.size.kv_blocks;
  queued.estimated_completion_tokens = request.estimated_completion_tokens;

  const bool starts = can_start(request);
  const bool late = now >= request.deadline;
  if (!starts && late) {
    Refusal refusal;
    refusal.code = RefusalCode::QueueDeadline;
    refusal.meter = "queue_ttl";
    refusal.scope = queue_by_class[request.class_index].scope();
    refusal.limit = std::chrono::duration_cast<std::chrono::milliseconds>(
                        request.deadline - request.arrived).count();
    refusal.retry_after = until_served(now, request.class_index);
    return refusal;
  }
  const bool had_place = !request.place.empty();
  if (!starts && !had_place) {
    if (auto refusal = acquire_place(now, request)) return refusal;
  }
  if (!had_place) reading_without_place -= 1;

  record_budget_checks(now, request.path, request.size, request.estimated_completion_tokens,
                       request.checks);
  const std::array<Budget, 3> budgets = {budget_of(*request.path[0]), budget_of(*request.path[1]),
                                         budget_of(*request.path[2])};
  request.ledger.open_budgets(now, budgets, request.size, request.estimated_completion_tokens);

  const ShareTree::NodeIndex leaf = request.key->share;
  if (starts) {
    // Through the same door as everybody: becoming ready lifts the counters, and being picked moves
    // the mark to which others are lifted later. Without it, service to requests that never waited
    // would be forgotten.
    shares.set_backlog(leaf, request.class_index, true);
    const auto picked = shares.pick(request.class_index);
    assert(picked == leaf && "nobody else in this class is ready");
    (void)picked;
    start(now, request);
    shares.set_backlog(leaf, request.class_index, !room.empty(leaf, request.class_index));
    request.unreported = true;
    queued.starts_now = true;
    return std::nullopt;
  }
  const WaitingRoom::Backlog ahead = room.backlog(leaf, request.class_index);
  queued.position = ahead.requests;
  queued.ahead_units = ahead.units;
  request.entry = {request.id,
                   leaf,
                   request.class_index,
                   next_order++,
                   request.deadline,
                   kUnitsPerPromptToken * request.size.prompt_tokens +
                       kUnitsPerGeneratedToken * request.estimated_completion_tokens};
  room.add(request.entry);
  shares.set_backlog(leaf, request.class_index, true);
  request.phase = Phase::Waiting;
  return std::nullopt;
}

std::optional<Refusal> Admission::State::acquire_place(Instant now, Request& request) {
  for (const Principal* node : request.path) {
    if (node->inflight.capacity() == 0) return no_place(node->inflight, std::nullopt);
  }
  const auto meters = queue_meters(request);
  const auto full = [](const Meter* meter) { return !meter->fits(1); };
  const auto narrowest = std::ranges::find_if(meters, full);
  if (narrowest != meters.end()) {
    // A victim inside the narrowest full scope frees a place in every wider one. A full class
    // cannot be relieved: only its own requests hold its places.
    const auto level = static_cast<std::size_t>(narrowest - meters.begin());
    const Principal* scope = level < request.path.size() ? request.path[level] : nullptr;
    // Nor can a meter that holds more than its lowered capacity: one victim would not be enough.
    const bool relievable = std::ranges::all_of(meters, [](const Meter* meter) {
      return !meter->capacity() || meter->committed() <= *meter->capacity();
    });
    std::optional<WaitingRoom::Entry> victim;
    if (relievable && !full(&queue_by_class[request.class_index])) {
      victim = room.displaceable(request.class_index, [&](const WaitingRoom::Entry& entry) {
        const Request& candidate = requests.at(entry.id);
        return scope == nullptr || std::ranges::find(candidate.path, scope) != candidate.path.end();
      });
    }
    if (!victim) return no_place(**narrowest, until_place(now, request, scope));
    Refusal displaced = no_place(**narrowest, kRetryAfterDisplaced);
    displaced.code = RefusalCode::Displaced;
    refuse_waiting(now, requests.at(victim->id), std::move(displaced));
  }
  for (Meter* meter : meters) {
    if (meter->capacity()) {
      request.checks.push_back({meter->name(), *meter->capacity(), meter->committed(), 1});
    }
    request.place.add(*meter, 1);
  }
  return std::nullopt;
}

}  // namespace turnstile::policy
