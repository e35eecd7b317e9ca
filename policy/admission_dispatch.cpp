// The serving side: who is next, and the books of what runs.
#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/admission.h"
#include "policy/admission_state.h"

namespace turnstile::policy {

// Takes the lease and reports it. The caller keeps the waiting room and the share tree's backlog in
// step, because a request that starts at once was never in the room.
void Admission::State::start(Instant now, Request& request) {
  Dispatch report;
  report.id = request.id;
  report.max_tokens = request.size.max_tokens;
  report.choices = request.size.choices;
  report.arrived = request.arrived;
  report.dispatched = now;
  report.queue_wait = now - request.arrived;
  report.pick.class_name = policy->classes[request.class_index].name;
  report.pick.v = shares.v(request.key->share, request.class_index);
  report.pick.v_min = report.pick.v;
  report.kv.need_blocks = request.size.kv_blocks;
  report.kv.capacity_blocks = *kv_blocks.capacity();
  report.kv.free_blocks = *kv_blocks.capacity() - kv_blocks.committed();
  report.checks = std::move(request.checks);

  request.phase = Phase::Running;
  running += 1;
  set_prefill_left(request, request.size.prompt_tokens);
  request.place.release();
  for (Principal* node : request.path) {
    request.lease.add(node->inflight, 1);
    if (Meter* of_class = node->inflight_of(request.class_index)) request.lease.add(*of_class, 1);
  }
  request.lease.add(sequence_slots, request.size.choices);
  request.lease.add(kv_blocks, request.size.kv_blocks);
  request.ledger.open_share(shares, request.key->share, request.class_index);
  refresh_gates(request.path);
  unreported.push_back(std::move(report));
}

void Admission::State::refresh_gates(const Path& path) {
  for (const Principal* node : path) {
    for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
      shares.set_gate(node->share, c, node->may_run(c));
    }
  }
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
    refusal.retry_after = state.until_served(now, request.class_index);
    state.refuse_waiting(now, request, std::move(refusal));
  }

  // The best class with a ready queue is served until its next request does not fit the engine;
  // then everything waits for that one. Serving a smaller one instead could hold it off forever.
  const auto classes = static_cast<ClassIndex>(state.policy->classes.size());
  ClassIndex best = 0;
  while (best < classes) {
    const auto leaf = state.shares.pick(best);
    if (!leaf) {
      best += 1;
      continue;
    }
    const auto head = state.room.head(now, *leaf, best);
    assert(head && "a ready leaf has a waiting request");
    Request& request = state.requests.at(head->id);
    if (!state.fits_engine(request.size)) break;
    state.take_from_room(request);
    state.start(now, request);
    state.shares.set_backlog(*leaf, best, !state.room.empty(*leaf, best));
  }

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
  if (it == state_->requests.end() || it->second.phase != Phase::Running) return;
  Request& request = it->second;
  const std::int64_t uncached = request.size.prompt_tokens - cached_prompt_tokens;
  state_->set_prefill_left(request, std::clamp<std::int64_t>(uncached, 0, request.prefill_left));
  request.ledger.on_cached(now, state_->shares, cached_prompt_tokens);
  if (blocks_returned > 0) request.lease.give_back(state_->kv_blocks, blocks_returned);
}

void Admission::on_blocks_returned(Instant now, RequestId id, std::int64_t blocks) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end() || it->second.phase != Phase::Running) return;
  it->second.lease.give_back(state_->kv_blocks, blocks);
}

void Admission::on_tokens(Instant now, RequestId id, std::int64_t prompt_tokens_computed,
                          std::int64_t generated_tokens) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end() || it->second.phase != Phase::Running) return;
  Request& request = it->second;
  state_->set_prefill_left(request,
                           std::max<std::int64_t>(0, request.prefill_left - prompt_tokens_computed));
  state_->step_units += kUnitsPerPromptToken * prompt_tokens_computed +
                        kUnitsPerGeneratedToken * generated_tokens;
  if (generated_tokens > 0) state_->learn_first_token(now, request);
  state_->learn_pace(now, request, generated_tokens);
  request.ledger.on_generated(now, state_->shares, generated_tokens);
}

void Admission::on_step(Instant now, Duration took) {
  state_->tick(now);
  state_->predictor.on_step(took, state_->step_units, state_->room.size() > 0);
  state_->step_units = 0;
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

std::optional<Settlement> Admission::on_ended(Instant now, RequestId id, EndKind kind,
                                              ActualUse actual) {
  State& state = *state_;
  state.tick(now);
  const auto it = state.requests.find(id);
  if (it == state.requests.end() || it->second.phase != Phase::Running) return std::nullopt;
  Request& request = it->second;
  if (request.unreported) {
    std::erase_if(state.unreported, [id](const Outcome& outcome) {
      const auto* started = std::get_if<Dispatch>(&outcome);
      return started != nullptr && started->id == id;
    });
  }
  if (kind == EndKind::Completed) {
    const std::int64_t length = actual.generated_tokens / request.size.choices;
    request.key->length(request.model_index, request.class_index).learn(length);
  }
  Settlement settlement =
      request.ledger.close(now, state.shares, actual.prompt_tokens_computed,
                           actual.generated_tokens, kind != EndKind::Fault);
  state.forget(now, request, State::RateCharge::Keep);
  return settlement;
}

}  // namespace turnstile::policy
