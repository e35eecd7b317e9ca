// The serving side: who is next, and the books of what runs.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/admission.h"
#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

constexpr std::int64_t kWholeEngine = 1'000'000;

// The engine may still report of a request that was paused a moment ago.
bool was_started(const Request& request) {
  return request.phase == Phase::Running || request.phase == Phase::Paused;
}

}  // namespace

// Takes the lease and reports it. The caller keeps the waiting room and the share tree's backlog in
// step, because a request that starts at once was never in the room.
void Admission::State::start(Instant now, Request& request, bool due) {
  Dispatch report;
  report.id = request.id;
  report.max_tokens = request.size.max_tokens;
  report.choices = request.size.choices;
  report.arrived = request.arrived;
  report.dispatched = now;
  report.queue_wait = now - request.arrived;
  report.pick.class_name = policy->classes[request.class_index].name;
  report.pick.v = shares.v(request.key->share, request.class_index);
  report.pick.v_min = report.pick.v - last_ahead;
  report.pick.due = due;
  report.checks = std::move(request.checks);

  set_prefill_left(request, request.size.prompt_tokens);
  request.place.release();
  report.kv = take_lease(now, request);
  request.for_its_floor = due;
  request.unreported = true;
  request.ledger.open_share(shares, request.key->share, request.class_index);
  floors.charge(request.class_index, request.ledger.share_units());
  unreported.push_back(std::move(report));
}

// Inflight, slots and blocks, and all that follows from running.
KvDecision Admission::State::take_lease(Instant now, Request& request) {
  KvDecision kv;
  kv.need_blocks = first_blocks(request);
  kv.peak_blocks = last_peak;
  kv.capacity_blocks = *kv_blocks.capacity();
  kv.free_blocks = *kv_blocks.capacity() - kv_blocks.committed();
  for (Principal* node : request.path) {
    request.lease.add(node->inflight, 1);
    if (Meter* of_class = node->inflight_of(request.class_index)) request.lease.add(*of_class, 1);
  }
  request.lease.add(sequence_slots, request.size.choices);
  request.lease.add(kv_blocks, kv.need_blocks);
  request.phase = Phase::Running;
  request.started = now;
  running += 1;
  on_engine.push_back(&request);
  releases_are_stale = true;
  refresh_gates(request.path);
  return kv;
}

// Its ledger is open: what was charged at the dispatch holds, and computing again what the pause
// lost is charged to nobody.
void Admission::State::resume(Instant now, Request& request, bool due) {
  Resume report;
  report.id = request.id;
  report.resumed = now;
  report.due = due;
  request.for_its_floor = due;
  report.kv = take_lease(now, request);
  unreported.emplace_back(std::in_place_type<Resume>, report);
}

void Admission::State::refresh_gates(const Path& path) {
  for (const Principal* node : path) {
    for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
      shares.set_gate(node->share, c, node->may_run(c));
    }
  }
}

std::optional<Admission::State::Band> Admission::State::next_band() {
  const auto classes = static_cast<ClassIndex>(policy->classes.size());
  for (ClassIndex c = 0; c < classes; ++c) {
    if (shares.ready(ShareTree::kRoot, c) && floors.due(c)) return Band{c, true};
  }
  for (ClassIndex c = 0; c < classes; ++c) {
    if (shares.ready(ShareTree::kRoot, c)) return Band{c, false};
  }
  return std::nullopt;
}

std::optional<ClassIndex> Admission::State::best_ready() const {
  for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
    if (shares.ready(ShareTree::kRoot, c)) return c;
  }
  return std::nullopt;
}

// With locality, of those whose turn it nearly is, the one whose prompt is in the cache.
std::optional<ShareTree::NodeIndex> Admission::State::pick(Instant now, ClassIndex class_index) {
  last_ahead = 0;
  if (policy->locality_slack_units == 0) return shares.pick(class_index);
  const auto near = shares.pick_near(class_index, policy->locality_slack_units,
                                     [&](ShareTree::NodeIndex leaf) {
                                       return room.head(now, leaf, class_index)->cached_tokens;
                                     });
  if (!near) return std::nullopt;
  last_ahead = near->ahead;
  return near->leaf;
}

// The head of a class that is due does not fit, and everything waits for it, except a better class
// that may pause: it takes the room of those whom it pauses and none that the due one waits for.
bool Admission::State::start_by_pausing(Instant now) {
  const ClassIndex best = *best_ready();
  const auto leaf = pick(now, best);
  Request& request = requests.at(room.head(now, *leaf, best)->id);
  if (fits_engine(request, watermark(best))) return false;
  const auto victims = find_victims(request, watermark(best));
  if (victims.empty()) return false;
  for (Request* victim : victims) pause(*victim, request.id);
  if (best_ready() != best || pick(now, best) != leaf) return true;
  last_peak = kv_peak(request);
  take_from_room(request);
  if (request.phase == Phase::Paused) {
    resume(now, request, false);
  } else {
    start(now, request, false);
  }
  shares.set_backlog(*leaf, best, !room.empty(*leaf, best));
  return true;
}

void Admission::State::refresh_backlogs() {
  for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
    const bool backlogged = shares.ready(ShareTree::kRoot, c);
    const bool begins = backlogged && !floors.backlogged(c);
    floors.set_backlogged(c, backlogged, begins ? units_left(c) : 0);
  }
}

// Of the running requests of the class, as far as their usual lengths tell.
std::int64_t Admission::State::units_left(ClassIndex class_index) const {
  std::int64_t units = 0;
  for (const Request* request : on_engine) {
    if (request->class_index != class_index) continue;
    const std::int64_t tokens =
        request->estimated_completion_tokens - request->ledger.generated_tokens();
    units += kUnitsPerPromptToken * request->prefill_left +
             kUnitsPerGeneratedToken * std::max<std::int64_t>(0, tokens);
  }
  return units;
}

void Admission::dispatch(Instant now, std::vector<Outcome>& out) {
  State& state = *state_;
  state.tick(now);

  // A request is dispatched only before its deadline.
  for (auto urgent = state.room.most_urgent(); urgent && now >= urgent->deadline;
       urgent = state.room.most_urgent()) {
    Request& request = state.requests.at(urgent->id);
    Refusal refusal;
    refusal.code = RefusalCode::QueueDeadline;
    refusal.meter = "queue_ttl";
    refusal.scope = state.queue_by_class[request.class_index].scope();
    refusal.limit = std::chrono::duration_cast<std::chrono::milliseconds>(
                        request.deadline - request.arrived).count();
    state.learn_missed(now, request);
    refusal.retry_after = state.until_in_time(now, request);
    state.refuse_waiting(now, request, std::move(refusal));
  }

  // The best class with work is served until its next request does not fit the engine; then
  // everything waits for that one. Serving a smaller one instead could hold it off forever. A class
  // that is due goes first, and its watermark does not hold.
  state.refresh_backlogs();
  while (const auto band = state.next_band()) {
    const auto leaf = state.pick(now, band->class_index);
    const auto head = state.room.head(now, *leaf, band->class_index);
    assert(head && "a ready leaf has a waiting request");
    Request& request = state.requests.at(head->id);
    const std::int64_t watermark_ppm =
        band->due ? kWholeEngine : state.watermark(band->class_index);
    if (!state.fits_engine(request, watermark_ppm)) {
      if (band->due && state.start_by_pausing(now)) continue;
      const auto victims = state.find_victims(request, watermark_ppm);
      if (victims.empty()) break;
      for (Request* victim : victims) state.pause(*victim, request.id);
      continue;  // what they gave back of their team's limits may let somebody else be next
    }
    state.take_from_room(request);
    if (request.phase == Phase::Paused) {
      state.resume(now, request, band->due);
    } else {
      state.start(now, request, band->due);
    }
    state.shares.set_backlog(*leaf, band->class_index,
                             !state.room.empty(*leaf, band->class_index));
  }
  state.refresh_backlogs();

  for (Outcome& outcome : state.unreported) {
    if (auto* started = std::get_if<Dispatch>(&outcome)) {
      state.requests.at(started->id).unreported = false;
    }
    out.push_back(std::move(outcome));
  }
  state.unreported.clear();
}

std::optional<Instant> Admission::next_deadline() const {
  if (!state_->unreported.empty()) return state_->latest;
  const auto urgent = state_->room.most_urgent();
  if (!urgent) return std::nullopt;
  return urgent->deadline;
}

void Admission::on_bound(Instant now, RequestId id, std::int64_t cached_prompt_tokens,
                         std::int64_t blocks_returned) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end() || !was_started(it->second)) return;
  Request& request = it->second;
  const std::int64_t uncached = request.size.prompt_tokens - cached_prompt_tokens;
  state_->set_prefill_left(request, std::clamp<std::int64_t>(uncached, 0, request.prefill_left));
  request.ledger.on_cached(now, state_->shares, cached_prompt_tokens);
  if (blocks_returned > 0 && request.phase == Phase::Running) {
    request.blocks_returned += blocks_returned;
    request.lease.give_back(state_->kv_blocks, blocks_returned);
    state_->releases_are_stale = true;
  }
}

void Admission::on_blocks_returned(Instant now, RequestId id, std::int64_t blocks) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end() || it->second.phase != Phase::Running) return;
  it->second.blocks_returned += blocks;
  it->second.lease.give_back(state_->kv_blocks, blocks);
  state_->releases_are_stale = true;
}

void Admission::on_tokens(Instant now, RequestId id, std::int64_t prompt_tokens_computed,
                          std::int64_t generated_tokens) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end() || !was_started(it->second)) return;
  Request& request = it->second;
  const std::int64_t left = request.prefill_left - prompt_tokens_computed;
  state_->set_prefill_left(request, std::max<std::int64_t>(0, left));
  const std::int64_t units = kUnitsPerPromptToken * prompt_tokens_computed +
                             kUnitsPerGeneratedToken * generated_tokens;
  state_->step_units += units;
  state_->step_prompt_tokens += prompt_tokens_computed;
  if (generated_tokens > 0) state_->step_sequences += request.size.choices;
  state_->floors.on_served(units);
  if (generated_tokens > 0) state_->learn_first_token(now, request);
  state_->learn_pace(now, request, generated_tokens);
  request.ledger.on_generated(now, state_->shares, generated_tokens);
  state_->cover_growth(request);
  state_->releases_are_stale = true;
  if (!request.exhausted && request.ledger.exhausted()) {
    request.exhausted = true;
    state_->unreported.emplace_back(std::in_place_type<Exhausted>, Exhausted{id});
  }
}

void Admission::on_step(Instant now, Duration took) {
  state_->tick(now);
  State& state = *state_;
  state.predictor.on_step(took, state.step_units, state.room.size() > 0);
  if (state.step_prompt_tokens == 0 && state.step_sequences > 0) {
    state.step_time.on_step(took, state.step_sequences);
  }
  state.step_units = 0;
  state.step_sequences = 0;
  state.step_prompt_tokens = 0;
  if (state.room.size() > 0) state.refresh_releases();  // arrivals before the next step ask for it
}

void Admission::State::set_prefill_left(Request& request, std::int64_t tokens) {
  prefill_left += tokens - request.prefill_left;
  request.prefill_left = tokens;
}

void Admission::State::learn_first_token(Instant now, Request& request) {
  if (!request.predicted) return;
  predictor.learn(request.class_index, *request.predicted, now - request.predicted_at);
  request.predicted.reset();
}

// It never got its first token: all that is known is that it would have come later than now. To
// learn from those alone that were in time would make every prediction look good.
void Admission::State::learn_missed(Instant now, Request& request) {
  if (!request.predicted) return;
  const Duration waited = now - request.predicted_at;
  if (waited > predictor.likely(request.class_index, *request.predicted)) {
    predictor.learn(request.class_index, *request.predicted, waited);
  }
  request.predicted.reset();
}

std::optional<Settlement> Admission::on_ended(Instant now, RequestId id, EndKind kind,
                                              ActualUse actual) {
  State& state = *state_;
  state.tick(now);
  const auto it = state.requests.find(id);
  if (it == state.requests.end() || !was_started(it->second)) return std::nullopt;
  Request& request = it->second;
  state.unsay(id);
  // An answer that its budget cut short says nothing about lengths.
  if (kind == EndKind::Completed && !request.exhausted) {
    const std::int64_t length = actual.generated_tokens / request.size.choices;
    request.key->length(request.model_index, request.class_index).learn(length);
    state.length_of(request).learn(length);
  }
  const std::int64_t estimated_units = request.ledger.estimated_share_units();
  Settlement settlement =
      request.ledger.close(now, state.shares, actual.prompt_tokens_computed,
                           actual.generated_tokens, kind != EndKind::Fault);
  state.floors.charge(request.class_index, settlement.service_units - estimated_units);
  state.forget(now, request, State::RateCharge::Keep);
  return settlement;
}

}  // namespace turnstile::policy
