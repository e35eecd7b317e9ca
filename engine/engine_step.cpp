#include <algorithm>
#include <cassert>

#include "engine/engine_state.h"

namespace turnstile::engine {

Event& Engine::State::add_event(EventKind kind, const Sequence& sequence, StepOutput& out) {
  event_owners.push_back(sequence.request);
  Event& event = out.events.emplace_back();
  event.kind = kind;
  event.request = sequence.request->request.id;
  event.choice = sequence.order.choice;
  event.text_offset = static_cast<std::uint32_t>(out.text.size());
  event.top_offset = static_cast<std::uint32_t>(out.top_logprobs.size());
  return event;
}

void Engine::State::end_cancelled(StepOutput& out) {
  for (const RequestId id : cancelled) {
    // A request that ended in the step after which it was cancelled is no longer there.
    const auto found = requests.find(id);
    if (found == requests.end()) continue;
    for (Choice& choice : found->second->choices) {
      if (choice.sequence.phase == SequencePhase::Finished) continue;
      finish_choice(choice, {.finish = FinishReason::Cancelled}, out);
    }
  }
  cancelled.clear();
}

// A choice that is not born yet is born by its parent, which is set aside.
void Engine::State::apply_pauses(StepOutput& out) {
  for (const PauseCall& call : pause_calls) {
    const auto found = requests.find(call.id);
    if (found == requests.end()) continue;
    for (Choice& choice : found->second->choices) {
      Sequence& sequence = choice.sequence;
      if (!call.pause && sequence.phase == SequencePhase::Aside) scheduler.put_back(sequence);
      if (!call.pause) continue;
      const bool runs = sequence.phase == SequencePhase::Running;
      if (!runs && sequence.phase != SequencePhase::Waiting) continue;
      scheduler.set_aside(sequence);
      if (!runs) continue;
      if (drafter) drafter->forget(sequence);
      add_event(EventKind::Paused, sequence, out);
      ++out.stats.preemptions;
    }
  }
  pause_calls.clear();
}

void Engine::State::report_plan(StepOutput& out) {
  for (const Sequence* sequence : plan.paused) {
    if (drafter) drafter->forget(*sequence);
    add_event(EventKind::Paused, *sequence, out);
  }
  out.stats.preemptions += static_cast<std::uint32_t>(plan.paused.size());
  for (const Admission& admission : plan.admitted) {
    if (admission.resumed) {
      add_event(EventKind::Resumed, *admission.sequence, out);
      continue;
    }
    add_event(EventKind::Bound, *admission.sequence, out).tokens = admission.hit_tokens;
    if (!limits.enable_prefix_caching) continue;
    out.stats.cache_query_tokens += admission.sequence->prompt_tokens;
    out.stats.cache_hit_tokens += admission.hit_tokens;
  }
  out.stats.rows = plan.rows;
}

// Sequences that are only waiting do not keep a step: they get the next one the sooner.
class Engine::State::Watch final : public StepWatch {
 public:
  Watch(const State& state, StepMail& mail) : state_(state), mail_(mail) {}

  bool is_wanted() override {
    mail_.read();
    if (state_.cancelled.empty()) return true;
    return std::ranges::any_of(state_.plan.slices, [](const PlannedSlice& slice) {
      return !slice.sequence->request->cancelled;
    });
  }

 private:
  const State& state_;
  StepMail& mail_;
};

bool Engine::State::run_model(StepMail* mail) {
  if (plan.slices.empty()) return true;
  slices.clear();
  for (const PlannedSlice& slice : plan.slices) {
    Sequence& sequence = *slice.sequence;
    // Within the capacity: the guesses end before final_tokens.
    sequence.tokens.insert(sequence.tokens.end(), sequence.draft.begin(),
                           sequence.draft.begin() + slice.drafts);
    slices.push_back({.tokens = std::span(sequence.tokens)
                                    .subspan(sequence.computed, slice.rows + slice.drafts),
                      .first_position = sequence.computed,
                      .blocks = sequence.table.blocks,
                      .logits_rows = slice.wants_logits ? slice.drafts + 1 : 0});
  }
  const std::span wanted(logits.get(), plan.logits_rows * model_vocabulary);
  bool finished = true;
  if (mail == nullptr) {
    model->forward(slices, wanted);
  } else {
    Watch watch(*this, *mail);
    finished = model->forward(slices, wanted, &watch);
  }
  for (const PlannedSlice& slice : plan.slices) {
    std::vector<TokenId>& tokens = slice.sequence->tokens;
    tokens.resize(tokens.size() - slice.drafts);
  }
  return finished;
}

// Nothing was computed: `computed` stays where it is, so what the model has written of K and V is
// neither read nor published. The time it took says nothing about what steps cost.
void Engine::State::give_up(StepOutput& out) {
  for (const PlannedSlice& slice : plan.slices) {
    slice.sequence->draft.clear();
    if (slice.drafts > 0) scheduler.drop_drafts(*slice.sequence);
  }
  plan.clear();
  decode_step = {};
  out.stats.rows = 0;
}

void Engine::State::sample() {
  sampling.clear();
  next_job = 0;
  const float* rows = logits.get();
  for (const PlannedSlice& slice : plan.slices) {
    if (!slice.wants_logits) continue;
    ActiveRequest& active = *slice.sequence->request;
    // The other choices draw their first token from the same row.
    if (active.has_unborn_choices()) {
      for (std::size_t i = 1; i < active.choices.size(); ++i) {
        sampling.add(active.choices[i], rows, 0);
      }
    }
    sampling.add(active.choices[slice.sequence->order.choice], rows, slice.drafts);
    rows += (slice.drafts + 1) * model_vocabulary;
  }
  sampling.run(model->workers());
}

void Engine::State::advance(StepOutput& out) {
  for (const PlannedSlice& slice : plan.slices) {
    report_computed(slice, out);
    scheduler.on_computed(*slice.sequence, slice.rows);
    if (slice.wants_logits) extend_slice(slice, out);
  }
}

void Engine::State::report_computed(const PlannedSlice& slice, StepOutput& out) {
  const Sequence& sequence = *slice.sequence;
  const std::uint32_t begin = sequence.computed;
  const std::uint32_t end = begin + slice.rows;
  const std::uint32_t repeated_end = std::clamp(sequence.computed_once, begin, end);
  const std::uint32_t prompt_end = std::clamp(sequence.prompt_tokens, repeated_end, end);
  out.stats.prompt_rows += std::clamp(sequence.prompt_tokens, begin, end) - begin;
  if (prompt_end == begin) return;
  Event& event = add_event(EventKind::PromptComputed, sequence, out);
  event.recomputed = repeated_end - begin;
  event.tokens = prompt_end - repeated_end;
}

void Engine::State::extend_slice(const PlannedSlice& slice, StepOutput& out) {
  Sequence& sequence = *slice.sequence;
  ActiveRequest& active = *sequence.request;
  if (active.has_unborn_choices()) {
    // The choices go their own ways from here. The parent comes last: it may end with its first
    // token and take the blocks along.
    sequence.slots = 1;
    for (std::size_t i = 1; i < active.choices.size(); ++i) {
      Choice& choice = active.choices[i];
      extend_choice(choice, next_job++, 0, out);
      if (choice.sequence.phase == SequencePhase::Finished) continue;
      const auto copy = scheduler.fork(sequence, choice.sequence);
      if (copy) model->copy_block(copy->first, copy->second);
      if (choice.sequence.phase == SequencePhase::Waiting) {
        add_event(EventKind::Paused, choice.sequence, out);
        ++out.stats.preemptions;
      }
    }
  }
  const std::size_t job = next_job++;
  Choice& choice = active.choices[sequence.order.choice];
  const auto results = sampling.results(job);
  const std::size_t known = sequence.tokens.size();
  for (std::size_t i = 0; i < results.size() && sequence.phase == SequencePhase::Running; ++i) {
    // Row i > 0 was computed for a guess that has come true: it is a known token's now.
    if (i > 0) scheduler.on_computed(sequence, 1);
    extend_choice(choice, job, i, out);
  }
  judge_draft(slice, results.first(sequence.tokens.size() - known), out);
}

void Engine::State::extend_choice(Choice& choice, std::size_t job, std::size_t index,
                                  StepOutput& out) {
  Sequence& sequence = choice.sequence;
  const Request& request = sequence.request->request;
  const std::uint32_t generated = choice.generated() + 1;
  const bool may_end = generated > request.stop.min_tokens;
  const std::optional<SampledToken>& sampled = sampling.results(job)[index];
  if (!sampled) {
    finish_choice(choice, {.finish = FinishReason::Fault}, out);
    return;
  }
  sequence.tokens.push_back(sampled->token);
  const auto add_logprobs = [&](Event& event) {
    event.logprob = sampled->logprob;
    const std::span<const TopLogprob> top = sampling.top_logprobs(job, index);
    out.top_logprobs.insert(out.top_logprobs.end(), top.begin(), top.end());
    event.top_count = static_cast<std::uint32_t>(top.size());
  };
  if (may_end && sequence.request->ends_at(sampled->token)) {
    finish_choice(choice, {.finish = FinishReason::StopToken, .token = sampled->token}, out);
    add_logprobs(out.events.back());
    return;
  }

  Event& event = add_event(EventKind::Token, sequence, out);
  event.token = sampled->token;
  add_logprobs(event);
  std::optional<std::uint32_t> stop;
  if (!request.skip_special_tokens || !tokenizer->is_control(sampled->token)) {
    stop = choice.text.push(tokenizer->token_bytes(sampled->token), may_end, out.text);
  }
  event.text_bytes = static_cast<std::uint32_t>(out.text.size()) - event.text_offset;
  if (stop) {
    finish_choice(choice, {.finish = FinishReason::StopString, .stop_index = *stop}, out);
  } else if (generated == request.stop.max_tokens) {
    finish_choice(choice, {.finish = FinishReason::Length}, out);
  }
}

void Engine::State::finish_choice(Choice& choice, Event finished, StepOutput& out) {
  Sequence& sequence = choice.sequence;
  ActiveRequest& active = *sequence.request;
  if (drafter) drafter->forget(sequence);
  scheduler.finish(sequence);
  --active.open_choices;
  Event& event = add_event(EventKind::Finished, sequence, out);
  event.finish = finished.finish;
  event.token = finished.token;
  event.stop_index = finished.stop_index;
  event.request_done = active.open_choices == 0;
  if (finished.finish != FinishReason::StopString) {
    // A stop string that only the last, cut character completes shortens the text, no more.
    const bool may_end = choice.generated() > active.request.stop.min_tokens;
    choice.text.finish(may_end, out.text);
  }
  event.text_bytes = static_cast<std::uint32_t>(out.text.size()) - event.text_offset;
  if (event.request_done) done.push_back(active.request.id);
}

void Engine::State::close_step(StepOutput& out) {
  for (std::size_t i = 0; i < out.events.size(); ++i) {
    out.events[i].held_blocks = event_owners[i]->held_blocks();
  }
  event_owners.clear();
  for (const RequestId id : done) requests.erase(id);
  done.clear();
  out.stats.running_sequences = static_cast<std::uint32_t>(scheduler.running_count());
  out.stats.waiting_sequences = static_cast<std::uint32_t>(scheduler.waiting_count());
  out.stats.free_blocks = scheduler.kv().available();
  out.stats.total_blocks = scheduler.kv().total();
  const StepCost::Terms& cost = scheduler.cost().terms();
  out.stats.step_base_ms = cost.base_ms;
  out.stats.step_row_ms = cost.row_ms;
  out.stats.step_kv_byte_ms = cost.kv_byte_ms;
}

}  // namespace turnstile::engine
