// The waiting side: may it start at once, is there a place, and who is displaced for it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/admission_state.h"
#include "policy/arrival_checks.h"

namespace turnstile::policy {
namespace {

// At least, for who lost a place: what took it is not the last of its kind.
constexpr Duration kRetryAfterDisplaced = std::chrono::seconds(1);

// One newcomer with a long prompt may take the places of so many others.
constexpr std::size_t kMostVictims = 16;

Refusal no_place(const Meter& meter, std::int64_t asked, std::optional<Duration> retry_after) {
  Refusal refusal;
  refusal.code = RefusalCode::QueueFull;
  refusal.meter = meter.name();
  refusal.scope = meter.scope();
  refusal.limit = meter.capacity().value_or(0);
  refusal.committed = meter.committed();
  refusal.asked = asked;
  refusal.retry_after = retry_after;
  return refusal;
}

}  // namespace

// Narrowest first: key, team, department, class, all. Prompt tokens count once they are known; a
// request that took its place before holds the others already.
Admission::State::PlaceNeeds Admission::State::place_needs(const Request& request) {
  PlaceNeeds needs;
  const bool has_place = !request.place.empty();
  const std::int64_t tokens = request.size.prompt_tokens;
  for (std::size_t level = 0; level < request.path.size(); ++level) {
    Principal* node = request.path[level];
    if (!has_place) needs.add(node->queue, 1, node);
    // Keys have no limit of this kind.
    if (tokens > 0 && level > 0) needs.add(node->queue_tokens, tokens, node);
  }
  if (!has_place) needs.add(queue_by_class[request.class_index], 1, nullptr);
  if (tokens > 0) needs.add(queue_tokens_by_class[request.class_index], tokens, nullptr);
  if (!has_place) needs.add(queue_all, 1, nullptr, watermark(request.class_index));
  return needs;
}

bool Admission::State::passes_gates(const Request& request) const {
  return std::ranges::all_of(request.path, [&](const Principal* node) {
    return node->may_run(request.class_index);
  });
}

bool Admission::State::fits_engine(const Request& request, std::int64_t watermark_ppm) {
  if (!sequence_slots.fits(request.size.choices, watermark_ppm)) return false;
  last_peak = kv_peak(request);
  return last_peak <= Meter::part_of(*kv_blocks.capacity(), watermark_ppm) &&
         keeps_gaps(request, {});
}

// The TPOT guard: with it, would running requests of its class or a higher one still get their
// tokens in time? Those of lower classes do not count, or they would keep a higher one out. A
// target that is missed even by one alone guards nothing.
bool Admission::State::keeps_gaps(const Request& request,
                                  std::span<Request* const> paused) const {
  std::optional<Duration> target;
  ClassIndex hurried = 0;
  for (const Request* other : on_engine) {
    if (other->class_index > request.class_index) continue;
    const Duration gap = policy->classes[other->class_index].timeouts.token_gap;
    if (target && std::pair(gap, other->class_index) >= std::pair(*target, hurried)) continue;
    if (std::ranges::find(paused, other) != paused.end()) continue;
    target = gap;
    hurried = other->class_index;
  }
  if (!target) return true;
  const auto alone = step_time.gap_with(1);
  if (!alone || *alone > *target) return true;
  // In thousandths. Who may take twice as long as a higher class sits steps out for it, as the
  // engine does it, so a step has only a part of it.
  const auto in_a_step = [&](const Request& one) {
    const Duration own = policy->classes[one.class_index].timeouts.token_gap;
    const bool rests = one.class_index > hurried && own > *target && own >= 2 * *target;
    return one.size.choices * (rests ? 1000 * target->count() / own.count() : 1000);
  };
  std::int64_t sequences = in_a_step(request);
  for (const Request* other : on_engine) {
    if (std::ranges::find(paused, other) == paused.end()) sequences += in_a_step(*other);
  }
  return *step_time.gap_with((sequences + 999) / 1000) <= *target;
}

// True when nothing that may start waits in this class or a higher one, nor in a class that is due:
// the request would be next.
bool Admission::State::nobody_ahead(ClassIndex class_index) const {
  for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
    const bool goes_first = c <= class_index || floors.due(c);
    if (goes_first && shares.ready(ShareTree::kRoot, c)) return false;
  }
  return true;
}

// Nor anybody whom a pause might let start, by what it gives back of a team's limits.
bool Admission::State::nobody_waits(ClassIndex class_index) const {
  for (ClassIndex c = 0; c <= class_index; ++c) {
    if (shares.waiting_units(ShareTree::kRoot, c) > 0) return false;
  }
  return nobody_ahead(class_index);
}

bool Admission::State::can_start(const Request& request) {
  return nobody_ahead(request.class_index) && passes_gates(request) &&
         fits_engine(request, watermark(request.class_index));
}

// Before the size is known. Bounded by the free slots, so that no more prompts are tokenized
// without a place than could run.
bool Admission::State::may_start_soon(const Request& request) const {
  return nobody_ahead(request.class_index) && passes_gates(request) &&
         sequence_slots.fits(reading_without_place + 1, watermark(request.class_index));
}

// Where it waits. Who came back as told is ordered as the first attempt was, whose time to wait was
// everybody's.
WaitingRoom::Entry Admission::State::entry_of(const Request& request) const {
  const Duration wait = std::min(request.deadline - request.arrived,
                                 policy->classes[request.class_index].timeouts.queue_ttl);
  WaitingRoom::Entry entry{request.id,
                           request.key->share,
                           request.class_index,
                           request.order,
                           request.deadline,
                           request.units(),
                           request.arrived + wait / 2,
                           std::nullopt,
                           request.cached_hint,
                           false};
  if (request.keeps_place) entry.kept_deadline = request.first_arrived + wait;
  return entry;
}

// Who can no longer get its first token in time is not started: under overload the queue stands at
// the deadline, and nearly all that is started then would be in vain. What it needs after its start
// is its own prompt and a step; at most a quarter of the target, should the pace be far off.
void Admission::State::end_in_time(Request& request) const {
  if (running == 0 || policy->classes[request.class_index].allow_late) return;
  const std::int64_t prompt = request.size.prompt_tokens - request.cached_hint;
  const Duration needed = predictor.time_for(kUnitsPerPromptToken * prompt) +
                          step_time.gap_with(running).value_or(Duration{0});
  const Duration within = request.first_token_within;
  request.deadline =
      std::min(request.deadline, request.arrived + within - std::min(needed, within / 4));
}

// Takes the budgets, and then either the lease or a place. On refusal nothing of this is taken.
std::optional<Refusal> Admission::State::start_or_wait(Instant now, Request& request,
                                                       Queued& queued) {
  assert(request.phase == Phase::Reading && "a request is queued once");
  queued.max_tokens = request.size.max_tokens;
  queued.kv_blocks = request.size.kv_blocks;
  queued.estimated_completion_tokens = request.estimated_completion_tokens;
  queued.ticket = request.shown;

  decide_reservation(request);
  bool starts = can_start(request);
  std::vector<Request*> to_pause;
  if (!starts && nobody_waits(request.class_index) && passes_gates(request)) {
    to_pause = find_victims(request, watermark(request.class_index));
    starts = !to_pause.empty();
  }
  const bool late = now >= request.deadline;
  if (!starts && late) {
    Refusal refusal;
    refusal.code = RefusalCode::QueueDeadline;
    refusal.meter = "queue_ttl";
    refusal.scope = queue_by_class[request.class_index].scope();
    refusal.limit = std::chrono::duration_cast<std::chrono::milliseconds>(
                        request.deadline - request.arrived).count();
    refusal.retry_after = until_in_time(now, request);
    return refusal;
  }
  const bool had_place = !request.place.empty();
  std::vector<Displacement> victims;
  if (!starts) {
    if (auto refusal = find_place(now, request, victims)) return refusal;
  }
  // Before anybody is displaced for it.
  if (auto refusal = check_first_token(now, request, starts, queued)) return refusal;
  if (!starts) take_place(now, request, victims);
  for (Request* victim : to_pause) pause(*victim, request.id);
  if (!had_place) reading_without_place -= 1;

  const ClassIndex class_index = request.class_index;
  record_budget_checks(now, request.path, class_index, request.size,
                       request.estimated_completion_tokens, request.checks);
  const std::array<Budget, 3> budgets = {budget_of(*request.path[0], class_index),
                                         budget_of(*request.path[1], class_index),
                                         budget_of(*request.path[2], class_index)};
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
    last_ahead = 0;
    start(now, request, false);
    shares.set_backlog(leaf, request.class_index, !room.empty(leaf, request.class_index));
    queued.starts_now = true;
    return std::nullopt;
  }
  const WaitingRoom::Backlog ahead = room.backlog(leaf, request.class_index);
  queued.position = ahead.requests;
  queued.ahead_units = ahead.units;
  end_in_time(request);
  queued.waits_until = request.deadline;
  request.entry = entry_of(request);
  enter_room(request);
  request.phase = Phase::Waiting;
  return std::nullopt;
}

// Asks only. Finds who must go for the newcomer: while a meter on its way has no room, the newest
// request of the lowest strictly lower class that holds some of it. A full class cannot be
// relieved, since only its own requests hold its places.
std::optional<Refusal> Admission::State::find_place(Instant now, const Request& request,
                                                    std::vector<Displacement>& victims) {
  for (const Principal* node : request.path) {
    if (const Meter* closed = node->closed_for_good(request.class_index)) {
      return no_place(*closed, 1, std::nullopt);
    }
  }
  const PlaceNeeds needs = place_needs(request);
  const auto is_full = [&](const PlaceNeed& need) {
    std::int64_t freed = 0;
    for (const Displacement& gone : victims) {
      freed += requests.at(gone.victim).place.held(*need.meter);
    }
    return request.keeps_place
               ? !need.meter->fits(need.amount - freed, need.watermark_ppm)
               : !need.meter->fits_newcomer(need.amount - freed, need.watermark_ppm);
  };
  for (;;) {
    const auto all = needs.all();
    const auto full = std::ranges::find_if(all, is_full);
    if (full == all.end()) return std::nullopt;
    std::optional<WaitingRoom::Entry> victim;
    if (victims.size() < kMostVictims) {
      victim = room.displaceable(request.class_index, [&](const WaitingRoom::Entry& entry) {
        return requests.at(entry.id).place.held(*full->meter) > 0 &&
               std::ranges::find(victims, entry.id, &Displacement::victim) == victims.end();
      });
    }
    if (!victim) {
      return no_place(*full->meter, full->amount, until_place(now, request, *full));
    }
    victims.push_back({victim->id, full->meter});
  }
}

void Admission::State::take_place(Instant now, Request& request,
                                  const std::vector<Displacement>& victims) {
  for (const Displacement& gone : victims) {
    Request& victim = requests.at(gone.victim);
    const PlaceNeeds missing = place_needs(request);
    const auto lost = std::ranges::find(missing.all(), gone.full, &PlaceNeed::meter);
    // What it will need again, and below the watermark of its own class.
    PlaceNeed again = *lost;
    again.amount = victim.place.held(*lost->meter);
    again.watermark_ppm = lost->meter == &queue_all ? watermark(victim.class_index) : 1'000'000;
    const Duration wait = std::max(kRetryAfterDisplaced, until_place(now, victim, again));
    Refusal displaced = no_place(*gone.full, 1, wait);
    displaced.code = RefusalCode::Displaced;
    refuse_waiting(now, victim, std::move(displaced));
  }
  const PlaceNeeds needs = place_needs(request);
  for (const PlaceNeed& need : needs.all()) {
    Meter& meter = *need.meter;
    if (meter.capacity()) {
      request.checks.push_back(
          {meter.shared_name(), *meter.capacity(), meter.committed(), need.amount});
    }
    request.place.add(meter, need.amount);
  }
}

}  // namespace turnstile::policy
