#include "tests/sim/policy_books.h"

#include <algorithm>
#include <utility>

namespace turnstile::policy::sim {
namespace {

constexpr std::int64_t kUnitsPerToken = 60'000'000;

std::string broken(const std::string& what, RequestId id) {
  return what + " (request " + std::to_string(static_cast<std::uint64_t>(id)) + ")";
}

std::int64_t cost_of_cached(const NodeRules& rules, std::int64_t cached) {
  return (cached * rules.cached_weight_milli + 999) / 1000;
}

// The nearest whole number, at least one of what there is.
std::int64_t part_of(std::int64_t capacity, std::int64_t ppm) {
  const std::int64_t whole = capacity * ppm / 1'000'000;
  const std::int64_t rest = capacity * ppm % 1'000'000;
  return std::max(std::min<std::int64_t>(1, capacity), rest >= 500'000 ? whole + 1 : whole);
}

// A key is known by its name and its team.
std::string key_scope(const std::string& id, const std::string& team) {
  return "key/" + id + "@" + team;
}

}  // namespace

void Books::Deficit::move(Instant now, std::int64_t tokens) {
  const std::int64_t elapsed_us = (now - at).count() / 1000;
  at = now;
  units = std::max<std::int64_t>(0, units - elapsed_us * per_minute);
  units = std::max<std::int64_t>(0, units + tokens * kUnitsPerToken);
}

std::int64_t Books::Deficit::tokens_missing(Instant now) const {
  Deficit later = *this;
  later.move(now, 0);
  return (later.units + kUnitsPerToken - 1) / kUnitsPerToken;
}

Books::Books(const World& world) : world_(world) {
  const auto add = [&](const std::string& scope, const NodeRules& rules) {
    inflight_limits_[scope] = rules.inflight;
    inflight_by_class_[scope] = rules.inflight_by_class;
    const auto deficit = [&](std::int64_t per_minute) {
      return Deficit{per_minute, bucket_capacity(per_minute, rules.bucket_fraction_ppm), 0,
                     Instant{}};
    };
    if (rules.requests_per_minute) rates_[scope] = deficit(*rules.requests_per_minute);
    if (rules.tokens_per_minute) budgets_[scope] = {deficit(*rules.tokens_per_minute), rules, {}};
  };
  for (const Department& department : world.policy->departments) {
    add("dept/" + department.name, department.rules);
  }
  for (const Team& team : world.policy->teams) add("team/" + team.name, team.rules);
}

void Books::set_keys(const std::vector<KeyNode>& keys) {
  for (const KeyNode& key : keys) inflight_limits_[key_scope(key.id, key.team)] = key.inflight;
}

bool Books::in_node(const BookedRequest& request, const std::string& scope) const {
  return scope == key_scope(request.key_id, request.team) || scope == "team/" + request.team ||
         scope == "dept/" + request.department;
}

std::int64_t Books::count(Stage stage, const std::string& scope) const {
  return std::ranges::count_if(requests_, [&](const auto& item) {
    return item.second.stage == stage && in_node(item.second, scope);
  });
}

bool Books::passes_gates(const BookedRequest& request) const {
  for (const std::string& scope : {key_scope(request.key_id, request.team),
                                   "team/" + request.team, "dept/" + request.department}) {
    const auto& limit = inflight_limits_.at(scope);
    if (limit && count(Stage::Running, scope) >= *limit) return false;
    const auto of_class = inflight_by_class_.find(scope);
    if (of_class == inflight_by_class_.end()) continue;
    for (const ClassValue& most : of_class->second) {
      if (most.class_index != request.class_index) continue;
      const auto running = std::ranges::count_if(requests_, [&](const auto& item) {
        return item.second.stage == Stage::Running && in_node(item.second, scope) &&
               item.second.class_index == request.class_index;
      });
      if (running >= most.value) return false;
    }
  }
  return true;
}

std::int64_t Books::watermark(const BookedRequest& request) const {
  return world_.policy->classes[request.class_index].watermark_ppm;
}

bool Books::may_fit(const BookedRequest& request, std::int64_t watermark_ppm) const {
  return slots_ + request.choices <= part_of(world_.engine.sequence_slots, watermark_ppm) &&
         blocks_ + request.blocks <= part_of(world_.engine.kv_blocks, watermark_ppm);
}

// However long all answers get.
bool Books::surely_fits(const BookedRequest& request, std::int64_t watermark_ppm) const {
  return may_fit(request, watermark_ppm) &&
         worst_blocks_ + request.worst_blocks <=
             part_of(world_.engine.kv_blocks, watermark_ppm);
}

void Books::take_engine(BookedRequest& request) {
  request.stage = Stage::Running;
  slots_ += request.choices;
  blocks_ += request.blocks;
  worst_blocks_ += request.worst_blocks;
}

void Books::leave_engine(const BookedRequest& request) {
  slots_ -= request.choices;
  blocks_ -= request.blocks;
  worst_blocks_ -= request.worst_blocks;
}

bool Books::is_head(Instant now, const BookedRequest& request) const {
  std::vector<const BookedRequest*> queue;
  for (const auto& [id, other] : requests_) {
    if (other.stage == Stage::Waiting && other.key_id == request.key_id &&
        other.team == request.team && other.class_index == request.class_index) {
      queue.push_back(&other);
    }
  }
  const auto oldest_first = [](const BookedRequest* a, const BookedRequest* b) {
    return a->order < b->order;
  };
  std::ranges::sort(queue, oldest_first);
  switch (world_.policy->classes[request.class_index].order) {
    case LeafOrder::Fifo: return queue.front() == &request;
    case LeafOrder::Edf:
      return std::ranges::none_of(queue, [&](const BookedRequest* other) {
        const Instant theirs = other->first_arrived + other->usual_wait;
        const Instant ours = request.first_arrived + request.usual_wait;
        return theirs < ours || (theirs == ours && other->order < request.order);
      });
    case LeafOrder::LifoWhenStanding: {
      const BookedRequest& oldest = *queue.front();
      const bool half_gone = now - oldest.arrived >= oldest.usual_wait / 2;
      return (half_gone ? queue.back() : queue.front()) == &request;
    }
  }
  return false;
}

// The part of the bucket that only classes above the request's may use.
std::int64_t Books::floor_of(const TokenBudget& budget, const BookedRequest& request) const {
  std::int64_t floor = 0;
  for (const ClassValue& kept : budget.rules.budget_floor_ppm) {
    if (kept.class_index >= request.class_index) continue;
    floor = std::max(floor, budget.deficit.capacity * kept.value / 1'000'000);
  }
  return floor;
}

BookedRequest& Books::open(Instant now, RequestId id, const Resolved& resolved,
                           Instant deadline) {
  BookedRequest& request = requests_[id];
  request.id = id;
  request.key_id = resolved.key_id;
  request.team = resolved.team;
  request.department = resolved.department;
  request.class_index = resolved.class_index;
  request.arrived = now;
  request.first_arrived = now;
  request.shown = resolved.ticket;
  request.order = next_order_++;
  request.deadline = deadline;
  request.usual_wait = deadline - now;
  for (auto& [scope, rate] : rates_) {
    if (in_node(request, scope)) rate.move(now, 1);
  }
  return request;
}

void Books::remember(Instant now, const Refusal& refusal, std::optional<RequestId> shown,
                     const BookedRequest* own) {
  if (!refusal.ticket || places_.contains(*refusal.ticket)) return;
  // Of one that waited the books know the place; of one that was refused at once its ticket does.
  const bool has_waited = own != nullptr && own->stage == Stage::Waiting;
  if (refusal.shown == TicketUse::Kept && !has_waited) {
    places_[*refusal.ticket] = places_.at(*shown);
  } else if (own != nullptr) {
    places_[*refusal.ticket] = {own->order, own->first_arrived};
  } else {
    places_[*refusal.ticket] = {next_order_++, now};
  }
}

std::int64_t Books::reserved(const TokenBudget& budget, const BookedRequest& request) const {
  if (budget.rules.charge == Charge::Max) {
    return request.prompt + request.choices * request.max_tokens;
  }
  if (budget.rules.charge == Charge::Hard) {
    return request.prompt + request.choices * std::min<std::int64_t>(64, request.max_tokens);
  }
  const std::int64_t beside_prompt =
      budget.deficit.capacity - floor_of(budget, request) - request.prompt;
  return request.prompt +
         std::min(request.estimate, std::max(request.choices, beside_prompt));
}

void Books::charge(Instant now, TokenBudget& budget, const BookedRequest& request,
                   std::int64_t standing) {
  std::int64_t& before = budget.standing[request.id];
  budget.deficit.move(now, standing - before);
  before = standing;
}

std::optional<std::string> Books::enter(Instant now, BookedRequest& request,
                                        const TokenFacts& tokens, const Queued& queued) {
  if (queued.ticket == TicketUse::Kept) {
    const Place& place = places_.at(*request.shown);
    request.order = place.order;
    request.first_arrived = place.first_arrived;
    if (place.first_arrived >= request.arrived) return broken("a place of the future", request.id);
    request.deadline = request.arrived + 3 * request.usual_wait;
  }
  request.prompt = tokens.prompt_tokens;
  request.choices = tokens.choices;
  request.max_tokens = queued.max_tokens;
  request.worst_blocks = queued.kv_blocks;
  request.grows = request.choices == 1 &&
                  world_.policy->classes[request.class_index].length_quantile_ppm < 1'000'000;
  const std::int64_t block = world_.engine.block_tokens;
  request.blocks = request.grows ? (request.prompt + block) / block : request.worst_blocks;
  request.estimate = queued.estimated_completion_tokens;
  if (tokens.client_deadline) {
    request.deadline = std::min(request.deadline, request.arrived + *tokens.client_deadline);
    request.usual_wait = std::min(request.usual_wait, *tokens.client_deadline);
  }
  if (!queued.starts_now) {
    // Its wait may end before: by so much as its first token takes after a start.
    const Duration longest = request.deadline - request.arrived;
    const Duration waits = queued.waits_until - request.arrived;
    if (waits > longest || waits < longest * 3 / 4) {
      return broken("it waits for another time than it may", request.id);
    }
    request.deadline = queued.waits_until;
    request.usual_wait = std::min(request.usual_wait, waits);
  }
  const std::int64_t positions = request.prompt + request.max_tokens;
  if (request.worst_blocks * block < request.choices * positions) {
    return broken("fewer blocks reserved than the worst case needs", request.id);
  }
  if (positions > world_.engine.max_model_len) {
    return broken("prompt and max_tokens leave the context", request.id);
  }
  for (auto& [scope, budget] : budgets_) {
    if (!in_node(request, scope)) continue;
    charge(now, budget, request, reserved(budget, request));
    const std::int64_t usable = budget.deficit.capacity - floor_of(budget, request);
    if (budget.deficit.units > usable * kUnitsPerToken) {
      return broken("admitted into debt or the floor of the budget of " + scope, request.id);
    }
  }
  for (const auto& [scope, rate] : rates_) {
    if (in_node(request, scope) && rate.units > rate.capacity * kUnitsPerToken) {
      return broken("admitted above the request rate of " + scope, request.id);
    }
  }
  request.stage = Stage::Waiting;
  if (!queued.starts_now) return std::nullopt;
  for (const auto& [id, other] : requests_) {
    if (id != request.id && other.stage == Stage::Waiting &&
        other.class_index <= request.class_index && passes_gates(other)) {
      return broken("started past one of its class or a higher one that waited", request.id);
    }
  }
  if (!passes_gates(request)) return broken("started above an inflight limit", request.id);
  if (!may_fit(request, watermark(request))) {
    return broken("started above its watermark in the engine", request.id);
  }
  take_engine(request);
  return std::nullopt;
}

std::optional<std::string> Books::start(Instant now, const Dispatch& dispatch) {
  BookedRequest* request = find(dispatch.id);
  if (request == nullptr) return broken("a dispatch of a request that is gone", dispatch.id);
  if (request->reported) return broken("a dispatch reported twice", dispatch.id);
  request->reported = true;
  if (dispatch.arrived != request->arrived || dispatch.dispatched < dispatch.arrived ||
      dispatch.queue_wait != dispatch.dispatched - dispatch.arrived) {
    return broken("times of a dispatch out of order", dispatch.id);
  }
  if (request->stage == Stage::Running) return std::nullopt;  // it started when it was entered
  if (request->stage != Stage::Waiting) return broken("started while it was read", dispatch.id);
  if (now >= request->deadline) return broken("started after its deadline", dispatch.id);
  if (auto failure = check_start(now, *request, dispatch.pick.due)) return failure;
  take_engine(*request);
  return std::nullopt;
}

// What holds for every start out of the waiting room.
std::optional<std::string> Books::check_start(Instant now, const BookedRequest& request,
                                              bool due) const {
  if (!is_head(now, request)) return broken("started out of its queue's order", request.id);
  if (!passes_gates(request)) return broken("started above an inflight limit", request.id);
  if (due && world_.policy->classes[request.class_index].floor_ppm == 0) {
    return broken("due without a floor", request.id);
  }
  if (!may_fit(request, due ? 1'000'000 : watermark(request))) {
    return broken("started above its watermark in the engine", request.id);
  }
  for (const auto& [id, other] : requests_) {
    if (!due && other.stage == Stage::Waiting && other.class_index < request.class_index &&
        passes_gates(other)) {
      return broken("started before an eligible request of a higher class", request.id);
    }
  }
  return std::nullopt;
}

std::optional<std::string> Books::pause(const Pause& pause) {
  BookedRequest* victim = find(pause.id);
  const BookedRequest* by = find(pause.by);
  if (victim == nullptr || by == nullptr) return broken("a pause of or by nobody", pause.id);
  const ClassRules& rules = world_.policy->classes[victim->class_index];
  if (victim->stage != Stage::Running || !victim->reported) {
    return broken("paused what does not run", pause.id);
  }
  if (victim->class_index <= by->class_index || !rules.preemptible ||
      !world_.policy->classes[by->class_index].can_preempt) {
    return broken("paused for a class that may not pause it", pause.id);
  }
  victim->pauses += 1;
  if (victim->pauses > 2) return broken("paused a third time", pause.id);
  leave_engine(*victim);
  victim->stage = Stage::Waiting;
  victim->was_started = true;
  victim->returned = 0;
  const std::int64_t block = world_.engine.block_tokens;
  const std::int64_t used = (victim->prompt + victim->generated + block) / block;
  victim->blocks = victim->grows ? std::min(used, victim->worst_blocks) : victim->worst_blocks;
  return std::nullopt;
}

std::optional<std::string> Books::resume(Instant now, const Resume& resume) {
  BookedRequest* request = find(resume.id);
  if (request == nullptr || request->stage != Stage::Waiting || !request->was_started) {
    return broken("resumed what was not paused", resume.id);
  }
  if (auto failure = check_start(now, *request, resume.due)) return failure;
  take_engine(*request);
  return std::nullopt;
}

void Books::restate(Instant now, const BookedRequest& request) {
  for (auto& [scope, budget] : budgets_) {
    if (!in_node(request, scope)) continue;
    std::int64_t completion = reserved(budget, request) - request.prompt;
    if (budget.rules.charge == Charge::Hard) {
      // Another 64 for each choice while fewer than 16 are left and the bucket has them.
      std::int64_t& paid = budget.paid[request.id];
      paid = std::max(paid, completion);
      budget.deficit.move(now, 0);
      const std::int64_t prompt =
          request.prompt - request.cached + cost_of_cached(budget.rules, request.cached);
      charge(now, budget, request, prompt + paid);
      const std::int64_t most = request.choices * request.max_tokens;
      while (request.generated + 16 * request.choices > paid && paid < most) {
        const std::int64_t more = std::min(64 * request.choices, most - paid);
        const std::int64_t usable = budget.deficit.capacity - floor_of(budget, request);
        if (budget.deficit.per_minute == 0 ||
            budget.deficit.units + more * kUnitsPerToken > usable * kUnitsPerToken) {
          break;
        }
        paid += more;
        charge(now, budget, request, prompt + paid);
      }
      continue;
    }
    completion = std::max(completion, request.generated);
    charge(now, budget, request,
           request.prompt - request.cached + cost_of_cached(budget.rules, request.cached) +
               completion);
  }
}

void Books::return_blocks(BookedRequest& request, std::int64_t blocks) {
  request.blocks -= blocks;
  request.returned += blocks;
  blocks_ -= blocks;
}

void Books::grow(BookedRequest& request) {
  if (!request.grows) return;
  const std::int64_t block = world_.engine.block_tokens;
  const std::int64_t used = (request.prompt + request.generated + block) / block;
  const std::int64_t wanted = std::min(used, request.worst_blocks) - request.returned;
  const std::int64_t more =
      std::min(wanted - request.blocks, world_.engine.kv_blocks - blocks_);
  if (more <= 0) return;
  request.blocks += more;
  blocks_ += more;
}

std::optional<std::string> Books::end(Instant now, RequestId id, EndKind kind,
                                      const Settlement& settlement) {
  BookedRequest& request = requests_.at(id);
  const bool charged = kind != EndKind::Fault;
  const std::int64_t units = charged ? request.computed + 2 * request.generated : 0;
  if (settlement.service_units != units) return broken("shares not settled exactly", id);
  for (auto& [scope, budget] : budgets_) {
    if (!in_node(request, scope)) continue;
    std::int64_t completion = request.generated;
    if (budget.rules.charge == Charge::Hard) {
      const std::int64_t first = reserved(budget, request) - request.prompt;
      completion = std::min(completion, std::max(first, budget.paid[id]));
      budget.paid.erase(id);
    }
    const std::int64_t used = charged ? request.computed +
                                            cost_of_cached(budget.rules, request.cached) +
                                            completion
                                      : 0;
    const auto line = std::ranges::find_if(settlement.budgets, [&](const LedgerLine& l) {
      return l.meter == "tokens_per_minute/" + scope;
    });
    if (line == settlement.budgets.end() || line->used != used) {
      return broken("the budget of " + scope + " not settled exactly", id);
    }
    charge(now, budget, request, used);
    budget.standing.erase(id);
  }
  if (request.stage == Stage::Running) leave_engine(request);
  switch (kind) {
    case EndKind::Completed: counts.completed += 1; break;
    case EndKind::Cancelled: counts.client_gone += 1; break;
    case EndKind::TimedOut: counts.timed_out += 1; break;
    case EndKind::Fault: counts.fault += 1; break;
  }
  requests_.erase(id);
  return std::nullopt;
}

void Books::forget(Instant now, RequestId id, bool rate_back) {
  BookedRequest& request = requests_.at(id);
  if (request.stage == Stage::Running) leave_engine(request);
  for (auto& [scope, budget] : budgets_) {
    if (!in_node(request, scope)) continue;
    charge(now, budget, request, 0);
    budget.standing.erase(id);
  }
  for (auto& [scope, rate] : rates_) {
    if (rate_back && in_node(request, scope)) rate.move(now, -1);
  }
  requests_.erase(id);
}

BookedRequest* Books::find(RequestId id) {
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : &it->second;
}

std::vector<RequestId> Books::paused() const {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) {
    if (request.stage == Stage::Waiting && request.was_started) ids.push_back(id);
  }
  return ids;
}

// Paused requests are not among those that wait.
std::vector<RequestId> Books::in(Stage stage) const {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) {
    const bool is_paused = request.stage == Stage::Waiting && request.was_started;
    if (request.stage == stage && !is_paused) ids.push_back(id);
  }
  return ids;
}

}  // namespace turnstile::policy::sim
