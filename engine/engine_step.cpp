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

void Engine::State::report_plan(StepOutput& out) {
  for (const Sequence* sequence : plan.paused) add_event(EventKind::Paused, *sequence, out);
  out.stats.preemptions = static_cast<std::uint32_t>(plan.paused.size());
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

void Engine::State::run_model() {
  if (plan.slices.empty()) return;
  slices.clear();
  for (const PlannedSlice& slice : plan.slices) {
    const Sequence& sequence = *slice.sequence;
    slices.push_back(
        {.tokens = std::span(sequence.tokens).subspan(sequence.computed, slice.rows),
         .first_position = sequence.computed,
         .blocks = sequence.table.blocks,
         .wants_logits = slice.wants_logits});
  }
  model->forward(slices, std::span(logits.get(), plan.logits_rows * model_vocabulary));
}

void Engine::State::advance(StepOutput& out) {
  const float* row = logits.get();
  for (const PlannedSlice& slice : plan.slices) {
    report_computed(slice, out);
    scheduler.on_computed(*slice.sequence, slice.rows);
    if (!slice.wants_logits) continue;
    // A model may have more logits than the tokenizer has tokens; those are never chosen.
    sample_slice(*slice.sequence, std::span(row, tokenizer->vocab_size()), out);
    row += model_vocabulary;
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

void Engine::State::sample_slice(Sequence& sequence, std::span<const float> row,
                                 StepOutput& out) {
  ActiveRequest& active = *sequence.request;
  if (active.has_unborn_choices()) {
    // The other choices draw their first token from the same row and then go their own ways. The
    // parent comes last: it may end with its first token and take the blocks along.
    sequence.slots = 1;
    for (std::size_t i = 1; i < active.choices.size(); ++i) {
      Choice& choice = active.choices[i];
      extend_choice(choice, row, out);
      if (choice.sequence.phase == SequencePhase::Finished) continue;
      const auto copy = scheduler.fork(sequence, choice.sequence);
      if (copy) model->copy_block(copy->first, copy->second);
      if (choice.sequence.phase == SequencePhase::Waiting) {
        add_event(EventKind::Paused, choice.sequence, out);
        ++out.stats.preemptions;
      }
    }
  }
  extend_choice(active.choices[sequence.order.choice], row, out);
}

void Engine::State::extend_choice(Choice& choice, std::span<const float> row, StepOutput& out) {
  Sequence& sequence = choice.sequence;
  const Request& request = sequence.request->request;
  const std::uint32_t generated = choice.generated() + 1;
  const bool may_end = generated > request.stop.min_tokens;
  const auto top_begin = static_cast<std::uint32_t>(out.top_logprobs.size());
  const auto sampled = sampler.sample(
      row,
      {.params = request.sampling,
       .counts = choice.counts,
       .masked = may_end ? std::span<const TokenId>() : std::span(sequence.request->end_tokens),
       .choice = sequence.order.choice,
       .position = static_cast<std::uint32_t>(sequence.tokens.size())},
      out.top_logprobs);
  if (!sampled) {
    finish_choice(choice, {.finish = FinishReason::Fault}, out);
    return;
  }
  sequence.tokens.push_back(sampled->token);
  choice.counts.add(sampled->token);
  if (may_end && sequence.request->ends_at(sampled->token)) {
    finish_choice(choice, {.finish = FinishReason::StopToken, .token = sampled->token}, out);
    return;
  }

  Event& event = add_event(EventKind::Token, sequence, out);
  event.token = sampled->token;
  event.logprob = sampled->logprob;
  event.top_offset = top_begin;
  event.top_count = static_cast<std::uint32_t>(out.top_logprobs.size()) - top_begin;
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
}

}  // namespace turnstile::engine
