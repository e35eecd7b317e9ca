#include "tests/sim/policy_sim.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "tests/sim/on_abort.h"
#include "tests/sim/policy_log.h"

namespace turnstile::policy::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::int64_t kFewestEvents = 40;
constexpr std::int64_t kMostEvents = 160;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed), world_(make_world(random_)), books_(world_), admission_(world_) {
    admission_.set_keys(now_, world_.keys);
    books_.set_keys(world_.keys);
  }

  SimResult run(std::int64_t most_events) {
    const std::int64_t events = std::min(most_events, random_.between(kFewestEvents, kMostEvents));
    for (std::int64_t i = 0; i < events && !result_.failure; ++i) {
      event();
      if (random_.chance(90)) dispatch();
      check();
      result_.steps += 1;
    }
    drain();
    result_.counts = books_.counts;
    return result_;
  }

  std::optional<std::string> replay_log() const { return replay(world_, admission_.calls()); }

 private:
  void fail(const std::optional<std::string>& what) {
    if (what && !result_.failure) result_.failure = *what + ", after " + last_event_;
  }
  void note(std::uint64_t value) {
    result_.log_hash = (result_.log_hash ^ value) * 0x100000001b3u;  // FNV-1a
  }

  void event() {
    const std::int64_t dice = random_.below(100);
    if (dice < 42) return arrive();
    if (dice < 50) return enqueue_one();
    if (dice < 55) return leave_one();
    if (dice < 57) return withdraw_one();
    if (dice < 86) return engine_step();
    if (dice < 90) return end_one(EndKind::Cancelled);
    if (dice < 92) return end_one(EndKind::TimedOut);
    if (dice < 93) return end_one(EndKind::Fault);
    if (dice < 95) return change_keys();
    if (dice < 97) return end_again();
    last_event_ = "a jump of time";
    now_ += milliseconds(random_.between(1, 4000));
  }

  void arrive() {
    last_event_ = "an arrival";
    std::string key = world_.keys.empty() || random_.chance(2)
                          ? "stranger"
                          : world_.keys[pick(world_.keys.size())].id;
    std::optional<std::string> wish;
    if (random_.chance(60)) {
      wish = world_.policy->classes[pick(world_.policy->classes.size())].name;
    }
    // Some come back with a ticket: their own, another's, one that was used, one that never was;
    // mostly one of the newest, whose time is not over.
    std::optional<RequestId> shown;
    if (!tickets_.empty() && random_.chance(40)) {
      const std::size_t among = random_.chance(70) ? std::min<std::size_t>(6, tickets_.size())
                                                   : tickets_.size();
      const Holder& holder = tickets_[tickets_.size() - 1 - pick(among)];
      shown = holder.ticket;
      if (random_.chance(80)) {
        key = holder.key_id;
        wish = world_.policy->classes[holder.class_index].name;
      }
    }
    if (random_.chance(2)) shown = RequestId{static_cast<std::uint64_t>(random_.below(1000))};
    const auto resolved = admission_.resolve(now_, {key, wish, std::nullopt, shown});
    if (!resolved) return;
    arriving_ = {RequestId{}, key, resolved->class_index};
    if (wish && resolved->class_index < *world_.policy->find_class(*wish)) {
      return fail("a class was raised");
    }
    const RequestId id{++last_id_};
    const Instant deadline = now_ + resolved->timeouts.queue_ttl;
    const auto before = snapshot();
    books_.counts.arrived += 1;
    const std::int64_t waiting = admission_->queued();
    if (random_.chance(20)) {
      const auto place = admission_.take_place(now_, id, *resolved);
      note(place ? 1 : 2);
      if (!place) return refused(place.error(), before, shown);
      books_.open(now_, id, *resolved, deadline);
      if (admission_->queued() < waiting + 1) collect_displaced();
      reading_.push_back({id, *resolved});
      forget_leaver();
      return enter_outcomes();
    }
    const TokenFacts tokens = make_tokens(random_, world_.engine);
    const std::int64_t running = admission_->running();
    const auto queued = admission_.admit(now_, id, *resolved, tokens);
    if (!queued) return refused(queued.error(), before, shown);
    BookedRequest& request = books_.open(now_, id, *resolved, deadline);
    if (!queued->starts_now && admission_->queued() < waiting + 1) collect_displaced();
    if (queued->starts_now && admission_->running() < running + 1) collect_pauses(id);
    enter(request, tokens, *queued);
  }

  void enter(BookedRequest& request, const TokenFacts& tokens, const Queued& queued) {
    note(queued.starts_now ? 3 : 4);
    if (queued.ticket == TicketUse::Kept) result_.kept_tickets += 1;
    fail(books_.enter(now_, request, tokens, queued));
    request.length = random_.between(0, request.max_tokens);
    if (random_.chance(40)) request.length = request.max_tokens;
    forget_leaver();
    enter_outcomes();
  }

  // A newcomer displaced somebody. Who was displaced gave back its tokens before the newcomer's
  // were taken, so the books hear of it first. Some leave before anybody is told.
  void collect_displaced() {
    if (random_.chance(40)) leave_before_told();
    admission_.dispatch(now_, pending_);
    std::erase_if(pending_, [this](const Outcome& outcome) {
      const auto* late = std::get_if<LateRefusal>(&outcome);
      if (late == nullptr || late->refusal.code != RefusalCode::Displaced) return false;
      refuse_late(*late);
      return true;
    });
  }

  // Mostly the newest of the lowest class, who was probably displaced. Who was not leaves after the
  // newcomer came: the books hear of it later.
  void leave_before_told() {
    const std::vector<RequestId> here = books_.in(Stage::Waiting);
    if (here.empty()) return;
    const auto newest = std::ranges::max_element(here, {}, [&](RequestId id) {
      return std::pair(books_.find(id)->class_index, books_.find(id)->order);
    });
    const RequestId id = random_.chance(80) ? *newest : here[pick(here.size())];
    const bool was_refused = leave_untold(id);
    if (was_refused) return forget_untold(id, true);
    leaver_ = id;
  }

  // True when it had been refused, of which it now never hears.
  bool leave_untold(RequestId id) {
    const std::int64_t untold = admission_->untold();
    if (!admission_.leave(now_, id)) fail("a client could not leave before it was told");
    books_.counts.client_gone += 1;
    const bool was_refused = admission_->untold() < untold;
    if (was_refused) result_.left_untold += 1;
    return was_refused;
  }

  void forget_untold(RequestId id, bool was_refused) {
    books_.forget(now_, id, was_refused);
    fail(books_.check_owned(*admission_));
  }

  void forget_leaver() {
    if (leaver_) forget_untold(*std::exchange(leaver_, std::nullopt), false);
  }

  // A newcomer started in the place of others, which the books hear of first.
  void collect_pauses(RequestId by) {
    admission_.dispatch(now_, pending_);
    const auto is_for_it = [by](const Outcome& outcome) {
      const auto* pause = std::get_if<Pause>(&outcome);
      return pause != nullptr && pause->by == by;
    };
    for (const Outcome& outcome : pending_) {
      if (is_for_it(outcome)) fail(books_.pause(std::get<Pause>(outcome)));
    }
    std::erase_if(pending_, is_for_it);
    result_.pauses += 1;
  }

  void enter_outcomes() {
    for (const Outcome& outcome : pending_) {
      note(outcome.index());
      if (const auto* late = std::get_if<LateRefusal>(&outcome)) {
        refuse_late(*late);
      } else if (const auto* pause = std::get_if<Pause>(&outcome)) {
        note(static_cast<std::uint64_t>(pause->id));
        result_.pauses += 1;
        fail(books_.pause(*pause));
      } else if (const auto* dry = std::get_if<Exhausted>(&outcome)) {
        note(static_cast<std::uint64_t>(dry->id));
        BookedRequest* request = books_.find(dry->id);
        if (request == nullptr) return fail("a budget ended a request that is gone");
        request->length = 0;  // the next step ends it
        result_.exhausted += 1;
      } else if (const auto* resume = std::get_if<Resume>(&outcome)) {
        note(static_cast<std::uint64_t>(resume->id));
        fail(books_.resume(now_, *resume));
      } else {
        note(static_cast<std::uint64_t>(std::get<Dispatch>(outcome).id));
        fail(books_.start(now_, std::get<Dispatch>(outcome)));
      }
    }
    pending_.clear();
  }

  // A refusal leaves no trace.
  void refused(const Refusal& refusal,
               const std::vector<std::pair<std::string, std::int64_t>>& before,
               std::optional<RequestId> shown) {
    books_.counts.refused += 1;
    note(10 + static_cast<std::uint64_t>(refusal.code));
    note(static_cast<std::uint64_t>(refusal.retry_after.value_or(Duration{0}).count()));
    note(static_cast<std::uint64_t>(refusal.ticket.value_or(RequestId{0})));
    remember(refusal, shown, nullptr);
    if (refusal.shown == TicketUse::Kept) result_.kept_tickets += 1;
    if (refusal.ticket && !refusal.retry_after) fail("a ticket without a wait");
    if (snapshot() != before) fail("a refusal left a trace in the meters");
  }

  void remember(const Refusal& refusal, std::optional<RequestId> shown,
                const BookedRequest* own) {
    books_.remember(now_, refusal, shown, own);
    if (!refusal.ticket) return;
    Holder holder = own != nullptr ? Holder{{}, own->key_id, own->class_index} : arriving_;
    holder.ticket = *refusal.ticket;
    tickets_.push_back(std::move(holder));
  }

  void enqueue_one() {
    if (reading_.empty()) return;
    last_event_ = "the second transaction of a large prompt";
    const std::size_t at = pick(reading_.size());
    const auto [id, resolved] = reading_[at];
    reading_.erase(reading_.begin() + static_cast<std::ptrdiff_t>(at));
    const TokenFacts tokens = make_tokens(random_, world_.engine);
    const std::int64_t waiting = admission_->queued();
    const std::int64_t running = admission_->running();
    const auto queued = admission_.enqueue(now_, id, resolved, tokens);
    if (!queued) {
      note(30 + static_cast<std::uint64_t>(queued.error().code));
      books_.counts.refused += 1;
      remember(queued.error(), resolved.ticket, books_.find(id));
      books_.forget(now_, id, true);
      return;
    }
    if (!queued->starts_now && admission_->queued() < waiting) collect_displaced();
    if (queued->starts_now && admission_->running() < running + 1) collect_pauses(id);
    enter(*books_.find(id), tokens, *queued);
  }

  void leave_one() {
    last_event_ = "a client that left";
    std::vector<RequestId> here = books_.in(Stage::Waiting);
    for (const auto& [id, resolved] : reading_) here.push_back(id);
    for (const RequestId id : books_.in(Stage::Running)) {
      if (!books_.find(id)->reported) here.push_back(id);
    }
    if (here.empty()) return;
    const RequestId id = here[pick(here.size())];
    std::erase_if(reading_, [id](const auto& item) { return item.first == id; });
    if (!admission_.leave(now_, id)) return fail("a request that had not started could not leave");
    books_.counts.client_gone += 1;
    books_.forget(now_, id, false);
  }

  void withdraw_one() {
    if (reading_.empty()) return;
    last_event_ = "a prompt that proved invalid";
    const RequestId id = reading_.back().first;
    reading_.pop_back();
    admission_.withdraw(now_, id);
    books_.counts.arrived -= 1;  // an invalid request is not counted as arrived
    books_.forget(now_, id, true);
  }

  std::vector<RequestId> on_engine() {
    std::vector<RequestId> ids = books_.in(Stage::Running);
    std::erase_if(ids, [&](RequestId id) { return !books_.find(id)->reported; });
    return ids;
  }

  void engine_step() {
    last_event_ = "an engine step";
    const Duration took = microseconds(random_.between(500, 40'000));
    now_ += took;
    // Where guesses are accepted a step has several tokens; else few answers would get long here.
    const std::int64_t most_tokens = random_.chance(50) ? 1 : 32;
    for (const RequestId id : on_engine()) {
      BookedRequest& request = *books_.find(id);
      if (!request.bound) {
        bind(request);
      } else if (request.computed < request.prompt - request.cached) {
        const std::int64_t chunk = std::min<std::int64_t>(
            request.prompt - request.cached - request.computed, random_.between(1, 64));
        request.computed += chunk;
        admission_.on_tokens(now_, id, chunk, 0);
        books_.grow(request);
        books_.restate(now_, request);
      } else if (request.generated < request.length * request.choices) {
        const std::int64_t left = request.length * request.choices - request.generated;
        const std::int64_t tokens =
            std::min(left, request.choices * random_.between(1, most_tokens));
        request.generated += tokens;
        admission_.on_tokens(now_, id, 0, tokens);
        books_.grow(request);
        books_.restate(now_, request);
      } else {
        end(id, EndKind::Completed);
      }
    }
    admission_.on_step(now_, took);
  }

  void bind(BookedRequest& request) {
    request.bound = true;
    request.cached = random_.chance(60) ? 0 : random_.below(request.prompt + 1);
    const std::int64_t shared = request.cached / world_.engine.block_tokens;
    admission_.on_bound(now_, request.id, request.cached, shared);
    books_.return_blocks(request, shared);
    books_.restate(now_, request);
    if (random_.chance(10) && request.blocks > 1) {
      admission_.on_blocks_returned(now_, request.id, 1);
      books_.return_blocks(request, 1);
    }
  }

  void end_one(EndKind kind) {
    last_event_ = "an end by force";
    auto started = on_engine();
    for (const RequestId id : books_.paused()) started.push_back(id);
    if (!started.empty()) end(started[pick(started.size())], kind);
  }

  void end(RequestId id, EndKind kind) {
    const BookedRequest& request = *books_.find(id);
    const auto settlement =
        admission_.on_ended(now_, id, kind, {request.computed, request.generated});
    note(60 + static_cast<std::uint64_t>(kind));
    if (!settlement) return fail("the end of a running request was not known");
    fail(books_.end(now_, id, kind, *settlement));
    ended_.push_back(id);
  }

  // The engine or the client says again what everybody knows.
  void end_again() {
    if (ended_.empty()) return;
    last_event_ = "a second end";
    const RequestId id = ended_[pick(ended_.size())];
    const auto before = snapshot();
    if (admission_.on_ended(now_, id, EndKind::Cancelled, {})) fail("a request ended twice");
    if (admission_.leave(now_, id)) fail("a request left after its end");
    admission_.on_tokens(now_, id, 5, 5);
    admission_.on_bound(now_, id, 1, 1);
    admission_.on_blocks_returned(now_, id, 1);
    if (snapshot() != before) fail("a second end moved a meter");
  }

  void change_keys() {
    last_event_ = "a change of keys";
    const std::string touched = change_a_key(random_, world_);
    admission_.set_keys(now_, world_.keys);
    books_.set_keys(world_.keys);
    if (random_.chance(50)) revoke(touched);
    dispatch();
  }

  // Whoever waits with the key is sent away at once, before it is told that the key is closed.
  void revoke(const std::string& key_id) {
    for (const RequestId id : books_.in(Stage::Waiting)) {
      if (books_.find(id)->key_id == key_id) forget_untold(id, leave_untold(id));
    }
  }

  void refuse_late(const LateRefusal& late) {
    note(90 + static_cast<std::uint64_t>(late.refusal.code));
    const BookedRequest* request = books_.find(late.id);
    if (request == nullptr || request->stage != Stage::Waiting || request->was_started) {
      return fail("a late refusal of a request that did not wait");
    }
    if (late.refusal.code == RefusalCode::QueueDeadline && now_ < request->deadline) {
      return fail("refused before its deadline");
    }
    books_.counts.refused += 1;
    remember(late.refusal, std::nullopt, request);
    books_.forget(now_, late.id, true);
  }

  void dispatch() {
    admission_.dispatch(now_, pending_);
    enter_outcomes();
    fail(books_.check_work_conservation(now_));
    const auto deadline = admission_->next_deadline();
    if (deadline && *deadline <= now_) fail("a deadline that has passed is still announced");
    if (!deadline && !books_.in(Stage::Waiting).empty()) fail("nobody is woken for who waits");
  }

  void check() {
    fail(admission_->check_invariants(now_));
    fail(books_.check_meters(now_, *admission_));
  }

  // Everybody finishes; then nothing may be held.
  void drain() {
    while (!reading_.empty() && !result_.failure) enqueue_one();
    // A key whose limit became zero while it was paused resumes nothing: the gateway ends such a
    // request by its time in all, of which policy knows nothing.
    for (const RequestId id : books_.paused()) {
      const bool is_closed = std::ranges::any_of(world_.keys, [&](const KeyNode& key) {
        return key.id == books_.find(id)->key_id && key.inflight == 0;
      });
      if (is_closed) end(id, EndKind::TimedOut);
    }
    for (int turn = 0; turn < 100'000 && !books_.empty() && !result_.failure; ++turn) {
      dispatch();
      engine_step();
      check();
    }
    if (!books_.empty()) {
      fail("a request never ended: " + std::to_string(books_.in(Stage::Waiting).size()) +
           " wait, " + std::to_string(books_.paused().size()) + " are paused, " +
           std::to_string(books_.in(Stage::Running).size()) + " run");
    }
    dispatch();
    check();
    if (admission_->queued() != 0 || admission_->running() != 0) fail("something is left");
    for (const MeterView& view : admission_->meters(now_, Admission::Detail::WithKeys)) {
      const bool bucket = view.name.find("_per_minute/") != std::string::npos;
      if (!bucket && view.committed != 0) fail(view.name + " is not empty after the drain");
    }
  }

  // What every meter holds, in their order.
  std::vector<std::pair<std::string, std::int64_t>> snapshot() const {
    std::vector<std::pair<std::string, std::int64_t>> held;
    for (MeterView& view : admission_->meters(now_, Admission::Detail::WithKeys)) {
      held.emplace_back(std::move(view.name), view.committed);
    }
    return held;
  }

  std::size_t pick(std::size_t count) {
    return static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(count)));
  }

  Random random_;
  World world_;
  Books books_;
  LoggedAdmission admission_;
  Instant now_{};
  std::uint64_t last_id_ = 0;
  std::vector<std::pair<RequestId, Resolved>> reading_;
  std::vector<RequestId> ended_;
  struct Holder {
    RequestId ticket{};
    std::string key_id;
    ClassIndex class_index = 0;
  };
  std::vector<Holder> tickets_;
  Holder arriving_;
  std::optional<RequestId> leaver_;  // of whom the books are still to hear
  std::vector<Outcome> pending_;
  std::string last_event_ = "the start";
  SimResult result_;
};

}  // namespace

SimResult run_policy_sim(std::uint64_t seed, std::int64_t most_events) {
  return Simulation(seed).run(most_events);
}

std::optional<std::string> run_and_replay(std::uint64_t seed) {
  Simulation simulation(seed);
  const SimResult result = simulation.run(kAllEvents);
  if (result.failure) return result.failure;
  return simulation.replay_log();
}

std::int64_t smallest_failing_prefix(std::uint64_t seed) {
  std::int64_t events = 0;
  while (events < kMostEvents && !tests::fails_apart([&] {
           return run_policy_sim(seed, events).failure.has_value();
         })) {
    events += 1;
  }
  return events;
}

}  // namespace turnstile::policy::sim
