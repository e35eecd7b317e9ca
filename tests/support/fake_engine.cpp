#include "tests/support/fake_engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace turnstile::tests {

bool FakeEngine::try_submit(engine::Request request) {
  if (throws_at_submit) throw std::runtime_error("planted");
  if (open_requests() >= limits_.max_open_requests) {
    ++not_taken_;
    return false;
  }
  submitted_.push_back(std::move(request));
  return true;
}

std::unique_ptr<gateway::StepReport> FakeEngine::try_take() {
  if (reports_.empty()) return nullptr;
  auto report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

void FakeEngine::give_back(std::unique_ptr<gateway::StepReport> report) {
  if (report == nullptr || reports_out_ == 0) throw std::logic_error("a report came back twice");
  --reports_out_;
}

std::uint32_t FakeEngine::Running::open_choices() const {
  return static_cast<std::uint32_t>(std::count_if(
      choices.begin(), choices.end(), [](const Choice& choice) { return !choice.is_done; }));
}

std::uint64_t FakeEngine::Running::held_blocks() const {
  if (!is_bound || paused_for || is_aside) return 0;
  std::uint64_t blocks = 0;
  for (const Choice& choice : choices) {
    if (choice.is_done) continue;
    const std::uint64_t positions = computed + choice.tokens;
    blocks += (positions + kBlockTokens - 1) / kBlockTokens;
  }
  return blocks;
}

std::uint64_t FakeEngine::held_blocks() const {
  std::uint64_t blocks = 0;
  for (const auto& [id, running] : running_) blocks += running.held_blocks();
  return blocks;
}

bool FakeEngine::step() {
  if (fault_ || !has_work() || reports_out_ == kReports) return false;
  auto report = std::make_unique<gateway::StepReport>();
  report->began = clock_.now() - step_time;
  ++reports_out_;
  ++steps_;
  beat();
  engine::StepOutput& out = report->output;

  const std::vector<engine::RequestId> to_cancel = std::exchange(cancels_, {});
  for (; !submitted_.empty(); submitted_.pop_front()) {
    engine::Request& request = submitted_.front();
    const engine::RequestId id = request.id;
    Running running{.request = std::move(request), .plan = {}, .choices = {}, .paused_for = {}};
    running.plan = plan(running.request);
    running.choices.resize(running.request.choices);
    if (!running_.emplace(id, std::move(running)).second) {
      throw std::logic_error("an engine request id was used twice");
    }
  }
  for (const engine::RequestId id : to_cancel) {
    const auto found = running_.find(id);
    if (found == running_.end()) continue;
    for (std::uint16_t i = 0; i < found->second.choices.size(); ++i) {
      if (!found->second.choices[i].is_done) {
        finish(found->second, i, engine::FinishReason::Cancelled, out);
      }
    }
  }
  std::erase_if(running_, [](const auto& entry) { return entry.second.open_choices() == 0; });
  apply_pauses(out);
  for (auto& [id, running] : running_) advance(running, out);
  relieve(out);
  check_limits();
  std::erase_if(running_, [](const auto& entry) { return entry.second.open_choices() == 0; });

  out.stats.running_sequences = static_cast<std::uint32_t>(running_.size());
  out.stats.total_blocks = limits_.blocks;
  out.stats.free_blocks = limits_.blocks - held_blocks();
  report->ended = clock_.now();
  reports_.push_back(std::move(report));
  return true;
}

engine::Event& FakeEngine::add(engine::EventKind kind, const Running& running,
                               engine::StepOutput& out) {
  engine::Event& event = out.events.emplace_back();
  event.kind = kind;
  event.request = running.request.id;
  event.text_offset = static_cast<std::uint32_t>(out.text.size());
  return event;
}

void FakeEngine::advance(Running& running, engine::StepOutput& out) {
  const auto prompt = static_cast<std::uint32_t>(running.request.prompt.size());
  if (running.is_aside) return;
  if (running.paused_for) {
    if (*running.paused_for > 0) {
      *running.paused_for -= 1;
      return;
    }
    running.paused_for.reset();
    // Like the engine, it goes on only where its blocks find room.
    if (held_blocks() > limits_.blocks) {
      running.paused_for = 0;
      return;
    }
  }
  if (running.was_paused) {
    running.was_paused = false;
    add(engine::EventKind::Resumed, running, out);
  }
  if (!running.is_bound) {
    running.is_bound = true;
    running.computed = std::min(running.plan.cached_tokens, prompt - 1);
    add(engine::EventKind::Bound, running, out).tokens = running.computed;
  }
  if (running.computed < prompt) {
    const std::uint32_t tokens =
        std::min(prompt - running.computed, running.plan.prompt_tokens_per_step);
    running.computed += tokens;
    add(engine::EventKind::PromptComputed, running, out).tokens = tokens;
    if (running.computed < prompt) return;
  }
  for (std::uint16_t i = 0; i < running.choices.size(); ++i) {
    if (!running.choices[i].is_done) generate(running, i, out);
  }
  const Choice& first = running.choices.front();
  if (!first.is_done && running.plan.pause_after == first.tokens) {
    running.plan.pause_after.reset();
    running.paused_for = running.plan.paused_steps;
    running.was_paused = true;
    add(engine::EventKind::Paused, running, out);
  }
}

bool FakeEngine::has_work() const {
  if (!submitted_.empty() || !cancels_.empty() || !pauses_.empty()) return true;
  return std::ranges::any_of(running_, [](const auto& entry) { return !entry.second.is_aside; });
}

void FakeEngine::apply_pauses(engine::StepOutput& out) {
  for (const auto& [id, pause] : std::exchange(pauses_, {})) {
    const auto found = running_.find(id);
    if (found == running_.end()) continue;
    Running& running = found->second;
    const bool held = running.is_bound && !running.paused_for && !running.is_aside;
    running.is_aside = pause;
    if (!pause || !held) continue;
    running.was_paused = true;
    add(engine::EventKind::Paused, running, out);
  }
}

// Blocks ran out: the newest of the lowest class goes, as in the engine.
void FakeEngine::relieve(engine::StepOutput& out) {
  while (held_blocks() > limits_.blocks) {
    Running* victim = nullptr;
    for (auto& [id, running] : running_) {
      if (running.held_blocks() == 0) continue;
      if (victim == nullptr || running.request.priority >= victim->request.priority) {
        victim = &running;
      }
    }
    victim->paused_for = 1;
    victim->was_paused = true;
    add(engine::EventKind::Paused, *victim, out);
  }
}

void FakeEngine::generate(Running& running, std::uint16_t choice, engine::StepOutput& out) {
  Choice& state = running.choices[choice];
  const std::uint32_t most = running.request.stop.max_tokens;
  const bool is_cut = running.plan.completion_tokens > most;
  if (!is_cut && state.tokens == running.plan.completion_tokens) {
    return finish(running, choice, running.plan.finish, out);
  }
  engine::Event& event = add(engine::EventKind::Token, running, out);
  event.choice = choice;
  event.token = state.tokens % 26;
  event.logprob = -0.5F;
  out.text += static_cast<char>('a' + state.tokens % 26);
  event.text_bytes = 1;
  ++state.tokens;
  if (state.tokens == most) finish(running, choice, engine::FinishReason::Length, out);
}

void FakeEngine::finish(Running& running, std::uint16_t choice, engine::FinishReason reason,
                        engine::StepOutput& out) {
  running.choices[choice].is_done = true;
  engine::Event& event = add(engine::EventKind::Finished, running, out);
  event.choice = choice;
  event.finish = reason;
  event.token = 63;  // the toy tokenizer's end of text
  event.logprob = -0.5F;
  event.request_done = running.open_choices() == 0;
}

void FakeEngine::check_limits() const {
  std::uint32_t sequences = 0;
  for (const auto& [id, running] : running_) {
    if (!running.paused_for && !running.is_aside) sequences += running.open_choices();
  }
  if (sequences > limits_.sequences) throw std::logic_error("more sequences than slots");
  if (held_blocks() > limits_.blocks) throw std::logic_error("more blocks held than exist");
}

}  // namespace turnstile::tests
