#include "tests/sim/policy_log.h"

#include <string_view>

namespace turnstile::policy::sim {
namespace {

// Answers as one line of text, with everything that was decided.
class Line {
 public:
  Line& number(std::int64_t value) { return text(std::to_string(value)); }
  Line& text(std::string_view value) {
    text_ += value;
    text_ += ' ';
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add(Line& line, const Refusal& refusal) {
  line.text(to_string(refusal.code)).text(refusal.meter).text(refusal.scope);
  line.number(refusal.limit).number(refusal.committed).number(refusal.asked).text(refusal.param);
  line.number(refusal.retry_after.value_or(Duration{-1}).count());
  line.number(static_cast<std::int64_t>(refusal.ticket.value_or(RequestId{0})));
  line.text(to_string(refusal.shown));
}

void add(Line& line, const Queued& queued) {
  line.number(queued.max_tokens).number(queued.kv_blocks).number(queued.position);
  line.number(queued.estimated_completion_tokens).number(queued.ahead_units);
  line.text(queued.starts_now ? "starts" : "waits").text(to_string(queued.ticket));
  if (queued.prediction) {
    line.number(queued.prediction->raw.count()).number(queued.prediction->likely.count());
    line.number(queued.prediction->safe.count());
  }
}

void add(Line& line, const Dispatch& started) {
  line.text("dispatch").number(static_cast<std::int64_t>(started.id));
  line.number(started.queue_wait.count()).number(started.pick.v).number(started.pick.v_min);
  line.number(started.kv.need_blocks).number(started.kv.peak_blocks);
  for (const Check& check : started.checks) line.text(check.meter).number(check.committed);
}

void add(Line& line, const Outcome& outcome) {
  if (const auto* started = std::get_if<Dispatch>(&outcome)) return add(line, *started);
  line.number(static_cast<std::int64_t>(outcome.index()));
  line.number(static_cast<std::int64_t>(
      std::visit([](const auto& told) { return told.id; }, outcome)));
  if (const auto* late = std::get_if<LateRefusal>(&outcome)) add(line, late->refusal);
}

template <typename Value>
std::string answer_of(const tl::expected<Value, Refusal>& answer) {
  Line line;
  if (!answer) add(line.text("no"), answer.error());
  if constexpr (!std::is_void_v<Value>) {
    if (answer) add(line.text("yes"), *answer);
  }
  return line.take();
}

std::string answer_of(const std::vector<Outcome>& outcomes, std::size_t from) {
  Line line;
  for (std::size_t i = from; i < outcomes.size(); ++i) add(line, outcomes[i]);
  return line.take();
}

std::string answer_of(const std::optional<Settlement>& settlement) {
  Line line;
  if (!settlement) return line.text("unknown").take();
  line.number(settlement->service_units);
  for (const LedgerLine& budget : settlement->budgets) {
    line.text(budget.meter).number(budget.reserved).number(budget.used);
  }
  return line.take();
}

// Repeats the call; what it answers.
std::string repeat(Admission& admission, const LoggedCall& call) {
  using Kind = LoggedCall::Kind;
  switch (call.kind) {
    case Kind::SetKeys:
      return std::to_string(admission.set_keys(call.now, call.keys).size());
    case Kind::Resolve: {
      const auto resolved =
          admission.resolve(call.now, {call.key_id, call.class_name, std::nullopt, call.ticket});
      return resolved ? resolved->class_name : std::string(to_string(resolved.error().code));
    }
    case Kind::TakePlace:
      return answer_of(admission.take_place(call.now, call.id, call.resolved));
    case Kind::Enqueue:
      return answer_of(admission.enqueue(call.now, call.id, call.resolved, call.tokens));
    case Kind::Admit:
      return answer_of(admission.admit(call.now, call.id, call.resolved, call.tokens));
    case Kind::Dispatch: {
      std::vector<Outcome> out;
      admission.dispatch(call.now, out);
      return answer_of(out, 0);
    }
    case Kind::Bound: admission.on_bound(call.now, call.id, call.first, call.second); return {};
    case Kind::BlocksReturned:
      admission.on_blocks_returned(call.now, call.id, call.first);
      return {};
    case Kind::Tokens: admission.on_tokens(call.now, call.id, call.first, call.second); return {};
    case Kind::Step: admission.on_step(call.now, Duration{call.first}); return {};
    case Kind::Ended:
      return answer_of(
          admission.on_ended(call.now, call.id, call.end, {call.first, call.second}));
    case Kind::Leave: return admission.leave(call.now, call.id) ? "left" : "unknown";
    case Kind::Withdraw: admission.withdraw(call.now, call.id); return {};
  }
  return {};
}

}  // namespace

LoggedCall& LoggedAdmission::note(LoggedCall::Kind kind, Instant now, RequestId id) {
  calls_.emplace_back();
  calls_.back().kind = kind;
  calls_.back().now = now;
  calls_.back().id = id;
  return calls_.back();
}

std::vector<KeyProblem> LoggedAdmission::set_keys(Instant now, const std::vector<KeyNode>& keys) {
  LoggedCall& call = note(LoggedCall::Kind::SetKeys, now, {});
  call.keys = keys;
  auto problems = admission_->set_keys(now, keys);
  call.answer = std::to_string(problems.size());
  return problems;
}

tl::expected<Resolved, Refusal> LoggedAdmission::resolve(Instant now, const Ask& ask) {
  LoggedCall& call = note(LoggedCall::Kind::Resolve, now, {});
  call.key_id = ask.key_id;
  if (ask.requested_class) call.class_name = std::string(*ask.requested_class);
  call.ticket = ask.ticket;
  auto resolved = admission_->resolve(now, ask);
  call.answer = resolved ? resolved->class_name : std::string(to_string(resolved.error().code));
  return resolved;
}

tl::expected<void, Refusal> LoggedAdmission::take_place(Instant now, RequestId id,
                                                        const Resolved& resolved) {
  LoggedCall& call = note(LoggedCall::Kind::TakePlace, now, id);
  call.resolved = resolved;
  auto placed = admission_->take_place(now, id, resolved);
  call.answer = answer_of(placed);
  return placed;
}

tl::expected<Queued, Refusal> LoggedAdmission::queue_by(Queueing how, LoggedCall::Kind kind,
                                                        Instant now, RequestId id,
                                                        const Resolved& resolved,
                                                        const TokenFacts& tokens) {
  LoggedCall& call = note(kind, now, id);
  call.resolved = resolved;
  call.tokens = tokens;
  auto queued = (*admission_.*how)(now, id, resolved, tokens);
  call.answer = answer_of(queued);
  return queued;
}

tl::expected<Queued, Refusal> LoggedAdmission::enqueue(Instant now, RequestId id,
                                                       const Resolved& resolved,
                                                       const TokenFacts& tokens) {
  return queue_by(&Admission::enqueue, LoggedCall::Kind::Enqueue, now, id, resolved, tokens);
}

tl::expected<Queued, Refusal> LoggedAdmission::admit(Instant now, RequestId id,
                                                     const Resolved& resolved,
                                                     const TokenFacts& tokens) {
  return queue_by(&Admission::admit, LoggedCall::Kind::Admit, now, id, resolved, tokens);
}

void LoggedAdmission::dispatch(Instant now, std::vector<Outcome>& out) {
  LoggedCall& call = note(LoggedCall::Kind::Dispatch, now, {});
  const std::size_t before = out.size();
  admission_->dispatch(now, out);
  call.answer = answer_of(out, before);
}

void LoggedAdmission::on_bound(Instant now, RequestId id, std::int64_t cached,
                               std::int64_t blocks) {
  LoggedCall& call = note(LoggedCall::Kind::Bound, now, id);
  call.first = cached;
  call.second = blocks;
  admission_->on_bound(now, id, cached, blocks);
}

void LoggedAdmission::on_blocks_returned(Instant now, RequestId id, std::int64_t blocks) {
  note(LoggedCall::Kind::BlocksReturned, now, id).first = blocks;
  admission_->on_blocks_returned(now, id, blocks);
}

void LoggedAdmission::on_tokens(Instant now, RequestId id, std::int64_t prompt,
                                std::int64_t generated) {
  LoggedCall& call = note(LoggedCall::Kind::Tokens, now, id);
  call.first = prompt;
  call.second = generated;
  admission_->on_tokens(now, id, prompt, generated);
}

void LoggedAdmission::on_step(Instant now, Duration took) {
  note(LoggedCall::Kind::Step, now, {}).first = took.count();
  admission_->on_step(now, took);
}

std::optional<Settlement> LoggedAdmission::on_ended(Instant now, RequestId id, EndKind kind,
                                                    ActualUse actual) {
  LoggedCall& call = note(LoggedCall::Kind::Ended, now, id);
  call.end = kind;
  call.first = actual.prompt_tokens_computed;
  call.second = actual.generated_tokens;
  auto settlement = admission_->on_ended(now, id, kind, actual);
  call.answer = answer_of(settlement);
  return settlement;
}

bool LoggedAdmission::leave(Instant now, RequestId id) {
  LoggedCall& call = note(LoggedCall::Kind::Leave, now, id);
  const bool left = admission_->leave(now, id);
  call.answer = left ? "left" : "unknown";
  return left;
}

void LoggedAdmission::withdraw(Instant now, RequestId id) {
  note(LoggedCall::Kind::Withdraw, now, id);
  admission_->withdraw(now, id);
}

std::optional<std::string> replay(const World& world, const std::vector<LoggedCall>& calls) {
  Admission admission(world.policy, world.engine);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string answer = repeat(admission, calls[i]);
    if (answer == calls[i].answer) continue;
    return "call " + std::to_string(i) + " answered \"" + calls[i].answer + "\", replayed \"" +
           answer + "\"";
  }
  return std::nullopt;
}

}  // namespace turnstile::policy::sim
