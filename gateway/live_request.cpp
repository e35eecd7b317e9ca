#include "gateway/live_request.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "gateway/live_requests.h"
#include "gateway/request_end.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {

LiveRequest::LiveRequest(SpineContext& context, Mailbox& mailbox, RequestRecord& record)
    : context_(context), mailbox_(mailbox), record_(record), id_(context.live.next_id()) {}

LiveRequest::~LiveRequest() {
  release(policy::EndKind::Fault);
  // What was refused holds nothing and may still be without its line.
  const bool has_no_end = record_.phase != RequestPhase::New && !record_.ended;
  if (has_no_end) finish_record(record_, RequestEnd::internal_error(), false, context_);
}

tl::expected<void, policy::Refusal> LiveRequest::take_place(const policy::Resolved& resolved) {
  auto placed = context_.admission.take_place(context_.clock.now(), id_, resolved);
  if (!placed) return placed;
  hold_ = Hold::Place;
  context_.live.add(*this);
  return placed;
}

void LiveRequest::withdraw() {
  if (hold_ != Hold::Place) return;
  context_.admission.withdraw(context_.clock.now(), id_);
  context_.live.remove(id_);
  hold_ = Hold::Nothing;
}

tl::expected<policy::Queued, policy::Refusal> LiveRequest::ask(const policy::Resolved& resolved,
                                                               const policy::TokenFacts& facts) {
  const policy::Instant now = context_.clock.now();
  const bool has_place = hold_ == Hold::Place;
  auto queued = has_place ? context_.admission.enqueue(now, id_, resolved, facts)
                          : context_.admission.admit(now, id_, resolved, facts);
  hold_ = queued ? Hold::Waiting : Hold::Nothing;
  if (!queued) {
    if (has_place) context_.live.remove(id_);
    return queued;
  }
  usage_.prompt_tokens = static_cast<std::uint64_t>(facts.prompt_tokens);
  blocks_held_ = queued->kv_blocks;
  blocks_per_choice_ = queued->kv_blocks / facts.choices;
  choice_clocks_.resize(static_cast<std::size_t>(facts.choices));
  if (!has_place) context_.live.add(*this);
  return queued;
}

bool LiveRequest::submit(std::vector<engine::Request> requests, TokenStream& stream) {
  assert(hold_ == Hold::Permit && "only a request with a permit reaches the engine");
  stream_ = &stream;
  for (engine::Request& request : requests) {
    const engine::RequestId engine_id = request.id;
    if (!context_.engine.try_submit(std::move(request))) return false;
    engine_requests_.push_back(engine_id);
    ++open_engine_requests_;
    if (is_set_aside_) context_.engine.pause(engine_id);  // between its dispatch and now
  }
  return true;
}

void LiveRequest::cancel() {
  if (stream_ != nullptr) stream_->mute();
  stop_engine();
}

void LiveRequest::stop_engine() {
  if (is_cancelled_ || engine_is_done()) return;
  is_cancelled_ = true;
  for (const engine::RequestId engine_id : engine_requests_) context_.engine.cancel(engine_id);
}

void LiveRequest::release(policy::EndKind kind) {
  const policy::Instant now = context_.clock.now();
  const Hold held = std::exchange(hold_, Hold::Released);
  switch (held) {
    case Hold::Nothing:
    case Hold::Released: return;
    case Hold::Place:
    case Hold::Waiting: context_.admission.leave(now, id_); break;
    case Hold::Permit: {
      stop_engine();
      const policy::ActualUse use{
          .prompt_tokens_computed = prompt_tokens_computed_,
          .generated_tokens = static_cast<std::int64_t>(usage_.completion_tokens)};
      record_.settlement = context_.admission.on_ended(now, id_, kind, use);
      break;
    }
  }
  context_.live.remove(id_);
}

void LiveRequest::on_dispatched(const policy::Dispatch& dispatch) {
  hold_ = Hold::Permit;
  record_.dispatch = dispatch;
  record_.dispatched = dispatch.dispatched;
  mailbox_.put(EventKind::Dispatched);
}

void LiveRequest::on_paused() {
  is_set_aside_ = true;
  ++record_.pauses;
  is_pause_expected_ = true;
  for (const engine::RequestId engine_id : engine_requests_) context_.engine.pause(engine_id);
}

void LiveRequest::on_resumed() {
  is_set_aside_ = false;
  for (const engine::RequestId engine_id : engine_requests_) context_.engine.resume(engine_id);
}

void LiveRequest::on_budget_exhausted() {
  is_exhausted_ = true;
  record_.end_code = "budget_exhausted";
  stop_engine();
}

void LiveRequest::on_refused(policy::LateRefusal refusal) {
  // Policy has forgotten the request already; only the registry still knows it.
  hold_ = Hold::Released;
  record_.refusal = std::move(refusal.refusal);
  context_.live.remove(id_);
  mailbox_.put(EventKind::Refused);
}

void LiveRequest::on_event(const engine::Event& reported, const engine::StepOutput& output,
                           policy::Instant now) {
  engine::Event event = reported;
  if (is_exhausted_) {
    // What was under way when the budget ended is not paid and not sent.
    if (event.kind == engine::EventKind::Token) return;
    const bool is_cut = event.finish == engine::FinishReason::Cancelled;
    if (is_cut) event.finish = engine::FinishReason::Length;
  }
  const auto prompt_index = static_cast<std::uint32_t>(prompt_index_of(event.request));
  const std::uint32_t choice = prompt_index * record_.choices + event.choice;
  switch (event.kind) {
    case engine::EventKind::Bound:
      usage_.cached_tokens += event.tokens;
      record_.cached_tokens = usage_.cached_tokens;
      // Shared blocks stay reserved: whoever else holds them may end first.
      context_.admission.on_bound(now, id_, static_cast<std::int64_t>(usage_.cached_tokens), 0);
      break;
    case engine::EventKind::PromptComputed:
      step_prompt_tokens_ += event.tokens;
      break;
    case engine::EventKind::Token: {
      ++usage_.completion_tokens;
      ++step_generated_;
      ChoiceClock& clock = choice_clocks_[choice];
      ++clock.tokens;
      if (clock.last_token) context_.metrics.on_token_gap(now - *clock.last_token);
      clock.last_token = now;
      last_token_at_ = now;
      stream_->on_token(choice, event, output, usage_);
      break;
    }
    case engine::EventKind::Paused:
      // One of the engine's own, for want of blocks, unless it answers on_paused().
      if (paused_sequences_ == 0 && !is_pause_expected_) ++record_.pauses;
      is_pause_expected_ = false;
      if (paused_sequences_++ == 0) context_.metrics.on_paused(record_);
      break;
    case engine::EventKind::Resumed:
      if (--paused_sequences_ == 0) context_.metrics.on_resumed(record_);
      last_token_at_ = now;  // the time of a pause is no stall
      break;
    case engine::EventKind::Finished:
      // An end token is generated but has no Token event.
      if (event.finish == engine::FinishReason::StopToken) {
        ++usage_.completion_tokens;
        ++step_generated_;
        ++choice_clocks_[choice].tokens;
      }
      stream_->on_finished(choice, event, output, usage_);
      on_choice_finished(event, now);
      break;
  }
  if (stream_ != nullptr && stream_->has_content()) {
    if (!record_.first_token) record_.first_token = now;
    record_.last_token = now;
  }
  record_.completion_tokens = usage_.completion_tokens;
  record_.longest_choice_tokens =
      std::max(record_.longest_choice_tokens, choice_clocks_[choice].tokens);
}

void LiveRequest::on_choice_finished(const engine::Event& event, policy::Instant now) {
  if (event.request_done) --open_engine_requests_;
  // The last choice's blocks go back with the permit.
  const std::int64_t blocks = std::min(blocks_per_choice_, blocks_held_ - blocks_per_choice_);
  if (blocks <= 0) return;
  blocks_held_ -= blocks;
  context_.admission.on_blocks_returned(now, id_, blocks);
}

void LiveRequest::end_of_step(policy::Instant now) {
  if (step_prompt_tokens_ > 0 || step_generated_ > 0) {
    prompt_tokens_computed_ += step_prompt_tokens_;
    context_.admission.on_tokens(now, id_, step_prompt_tokens_, step_generated_);
    step_prompt_tokens_ = 0;
    step_generated_ = 0;
  }
  mailbox_.put(EventKind::Progress);
}

void LiveRequest::on_engine_fault() {
  // What ended before the fault keeps its end, although its Progress may not be read yet.
  engine_has_failed_ = open_engine_requests_ > 0;
  open_engine_requests_ = 0;
  mailbox_.put(EventKind::EngineFault);
}

}  // namespace turnstile::gateway
