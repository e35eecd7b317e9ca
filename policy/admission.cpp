// The arrival side: look-ups, the two transactions, leaving. Dispatch and accounting are in
// admission_dispatch.cpp, read-only views in admission_views.cpp.
#include "policy/admission.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "policy/admission_state.h"
#include "policy/arrival_checks.h"
#include "policy/resolution.h"

namespace turnstile::policy {
namespace {

// Until tokens have been seen. Only Retry-After hints depend on it, and it is soon replaced.
constexpr std::int64_t kFirstPaceNs = 50'000'000;

Refusal with_jittered_retry(Refusal refusal, RequestId id) {
  if (refusal.retry_after) {
    refusal.retry_after = with_jitter(*refusal.retry_after, static_cast<std::uint64_t>(id));
  }
  return refusal;
}

tl::unexpected<Refusal> refused(Refusal refusal, RequestId id) {
  return tl::unexpected(with_jittered_retry(std::move(refusal), id));
}

// Of a request as long as the context: credits and debts of floors are bounded by it.
constexpr std::int64_t kMostUnitsPerPosition = kUnitsPerGeneratedToken;

// Of who waited as told, in times of everybody's wait, which comes on top.
constexpr int kMorePatience = 2;

// Requests whose memory is kept; each is about a kilobyte.
constexpr std::size_t kMostSpare = 1024;

std::vector<LeafOrder> orders_of(const PolicySet& policy) {
  std::vector<LeafOrder> orders;
  for (const ClassRules& rules : policy.classes) orders.push_back(rules.order);
  return orders;
}

// A client refused by its rate that would next be refused by its budget is told the longer wait.
void cover_budgets(std::optional<Refusal>& rate, const std::optional<Refusal>& budget) {
  if (!rate || !budget || !rate->retry_after) return;
  if (!budget->retry_after || *budget->retry_after > *rate->retry_after) {
    rate->retry_after = budget->retry_after;
  }
}

}  // namespace

Admission::State::State(std::shared_ptr<const PolicySet> policy_set, EngineFacts engine_facts)
    : policy(std::move(policy_set)),
      engine(std::move(engine_facts)),
      models(served_models(*policy, engine.model_name)),
      kv_blocks("kv_blocks", "engine", engine.kv_blocks),
      sequence_slots("sequence_slots", "engine", engine.sequence_slots),
      queue_all("queue/all", "all", policy->queue_requests_total),
      shares(policy->classes.size()),
      principals(*policy, shares),
      room(orders_of(*policy)),
      floors(policy->classes, kMostUnitsPerPosition * engine.max_model_len),
      lengths(std::max<std::size_t>(1, models.size()) * policy->classes.size()),
      pace_ns(kFirstPaceNs),
      predictor(policy->classes.size()) {
  assert(engine.block_tokens >= 1 && engine.sequence_slots >= 1 && "an engine can run something");
  for (const ClassRules& rules : policy->classes) {
    std::string scope = "class/";
    scope += rules.name;
    EngineFacts below = engine;
    below.kv_blocks = Meter::part_of(engine.kv_blocks, rules.watermark_ppm);
    below.sequence_slots = Meter::part_of(engine.sequence_slots, rules.watermark_ppm);
    engine_below.push_back(std::move(below));
    queue_tokens_by_class.emplace_back("queue_tokens/" + scope, scope, rules.queue_tokens);
    queue_by_class.emplace_back("queue/" + scope, scope, rules.queue_requests);
  }
}

Admission::Admission(std::shared_ptr<const PolicySet> policy, EngineFacts engine)
    : state_(std::make_unique<State>(std::move(policy), std::move(engine))) {}

Admission::~Admission() = default;

void Admission::State::tick(Instant now) {
  assert(now >= latest && "time does not go back");
  latest = now;
  expire_tickets(now);
}

std::vector<KeyProblem> Admission::set_keys(Instant now, const std::vector<KeyNode>& keys) {
  state_->tick(now);
  std::vector<KeyState*> closed;
  std::vector<KeyProblem> problems;
  for (auto& problem : state_->principals.set_keys(now, keys, closed)) {
    problems.push_back({std::move(problem.key_id), std::move(problem.what)});
  }
  std::vector<RequestId> waiting;
  state_->room.for_each([&](const WaitingRoom::Entry& entry) {
    for (const KeyState* key : closed) {
      if (entry.leaf == key->share && !entry.was_started) waiting.push_back(entry.id);
    }
  });
  for (const RequestId id : waiting) {
    state_->refuse_waiting(now, state_->requests.at(id), key_disabled());
  }
  return problems;
}

std::vector<KeyProblem> key_problems(const PolicySet& policy, const std::vector<KeyNode>& keys) {
  ShareTree tree(policy.classes.size());
  Principals principals(policy, tree);
  std::vector<KeyState*> closed;
  std::vector<KeyProblem> problems;
  for (auto& problem : principals.set_keys(Instant{}, keys, closed)) {
    problems.push_back({std::move(problem.key_id), std::move(problem.what)});
  }
  return problems;
}

tl::expected<Resolved, Refusal> Admission::resolve(Instant, const Ask& ask) const {
  return resolve_request(*state_->policy, state_->models, state_->principals,
                         state_->principals.find(ask.key_id), ask);
}

std::string_view Admission::class_for(std::string_view key_id) const {
  const PolicySet& policy = *state_->policy;
  const Principals& principals = state_->principals;
  const KeyState* key = principals.find(key_id);
  const ClassIndex index =
      key == nullptr ? policy.fallback_class
                     : class_of_path(policy, state_->models, principals.path(*key));
  return policy.classes[index].name;
}

std::vector<std::string> Admission::models_for(std::string_view key_id) const {
  std::vector<std::string> aliases;
  const KeyState* key = state_->principals.find(key_id);
  if (key == nullptr || !path_enabled(state_->principals, *key)) return aliases;
  const ConstPath path = std::as_const(state_->principals).path(*key);
  for (const Model& model : state_->models) {
    if (allows_model(path, model.alias)) aliases.push_back(model.alias);
  }
  return aliases;
}

KeyState* Admission::State::open_key(const Resolved& resolved) {
  KeyState* key = principals.by_handle(resolved.key_handle);
  return key != nullptr && path_enabled(principals, *key) ? key : nullptr;
}

// The request exists from here on and has paid its request rates.
Request& Admission::State::arrive(Instant now, RequestId id, KeyState& key,
                                  const Resolved& resolved) {
  if (spare.empty()) {
    std::unordered_map<RequestId, Request> fresh;
    fresh.try_emplace(id);
    spare.push_back(fresh.extract(id));
  }
  spare.back().key() = id;
  const auto added = requests.insert(std::move(spare.back()));
  assert(added.inserted && "a request id is used once");
  spare.pop_back();
  Request& request = added.position->second;
  request.id = id;
  request.key = &key;
  request.path = principals.path(key);
  request.class_index = resolved.class_index;
  request.model_index = resolved.model_index;
  request.arrived = now;
  request.first_arrived = now;
  request.order = next_order++;
  const ClassRules& rules = policy->classes[resolved.class_index];
  request.deadline = now + rules.timeouts.queue_ttl;
  request.first_token_within = rules.ttft;
  record_rate_checks(now, request.path, request.checks);
  for (Principal* node : request.path) node->requests.take(now, 1);
  principals.begin_request(key);
  return request;
}

// The only way out. Places and leases go back with the Request; the ledger was closed or is
// abandoned here.
void Admission::State::forget(Instant now, Request& request, RateCharge rate) {
  if (request.phase == Phase::Waiting || request.phase == Phase::Paused) leave_room(request);
  if (request.phase == Phase::Reading && request.place.empty()) reading_without_place -= 1;
  if (request.phase == Phase::Running) {
    running -= 1;
    std::erase(on_engine, &request);
    releases_are_stale = true;
  }
  set_prefill_left(request, 0);
  const bool was_started = request.phase == Phase::Running || request.phase == Phase::Paused;
  if (!was_started) request.ledger.abandon(now);
  for (Principal* node : request.path) {
    if (rate == RateCharge::GiveBack) {
      node->requests.give(now, 1);
    } else {
      node->requests.settle(1);
    }
  }
  request.place.release();
  request.lease.release();
  refresh_gates(request.path);
  KeyState& key = *request.key;
  auto node = requests.extract(request.id);
  if (spare.size() < kMostSpare) {
    node.mapped() = Request{};
    spare.push_back(std::move(node));
  }
  principals.end_request(key);
}

// The cache is a hint. Who waited as told was sent away once for our sake. Slots become free in
// waves, and it came a little before one or a little after: it may wait three times as long as
// others, which is about as long as it would be told again. Whoever has a deadline of its own does
// not wait beyond it.
void Admission::State::take_hints(Request& request, const TokenFacts& tokens) const {
  request.cached_hint =
      std::clamp<std::int64_t>(tokens.cached_prompt_tokens, 0, request.size.prompt_tokens);
  if (request.keeps_place) {
    request.deadline += kMorePatience * (request.deadline - request.arrived);
    request.first_token_within += kMorePatience * request.first_token_within;
  }
  if (!tokens.client_deadline) return;
  request.deadline = std::min(request.deadline, request.arrived + *tokens.client_deadline);
  request.first_token_within = std::min(request.first_token_within, *tokens.client_deadline);
}

void Admission::State::enter_room(Request& request) {
  room.add(request.entry);
  shares.add_waiting(request.entry.leaf, request.class_index, request.entry.units);
  shares.set_backlog(request.entry.leaf, request.class_index, true);
  waiting_slots += request.size.choices;
  waiting_blocks += expected_blocks(request);
}

// The share tree still counts its leaf as waiting, until the caller has charged the shares.
void Admission::State::take_from_room(Request& request) {
  room.remove(request.entry);
  shares.add_waiting(request.entry.leaf, request.class_index, -request.entry.units);
  waiting_slots -= request.size.choices;
  waiting_blocks -= expected_blocks(request);
}

void Admission::State::leave_room(Request& request) {
  take_from_room(request);
  shares.set_backlog(request.entry.leaf, request.class_index,
                     !room.empty(request.entry.leaf, request.class_index));
}

void Admission::State::refuse_waiting(Instant now, Request& request, Refusal refusal) {
  const RequestId id = request.id;
  const Instant arrived = request.arrived;
  unreported.push_back(LateRefusal{id, give_up(now, request, std::move(refusal)), arrived});
}

// Its owner is gone, so nothing more is told about it. True when it had been refused; then its
// ticket goes too, or its key would be blamed for not coming back.
bool Admission::State::unsay(RequestId id) {
  bool was_refused = false;
  std::optional<RequestId> ticket;
  std::erase_if(unreported, [&](const Outcome& outcome) {
    if (std::visit([](const auto& told) { return told.id; }, outcome) != id) return false;
    if (const auto* late = std::get_if<LateRefusal>(&outcome)) {
      was_refused = true;
      ticket = late->refusal.ticket;
    }
    return true;
  });
  if (ticket == id && tickets.find(id) != nullptr) {
    drop_ticket(id);
    keep_next();
  }
  return was_refused;
}

// Of a request that exists: it is gone after it.
Refusal Admission::State::give_up(Instant now, Request& request, Refusal refusal) {
  refusal = with_jittered_retry(std::move(refusal), request.id);
  refusal.shown = request.shown;
  const RequestSize size = request.size;
  const bool is_sized = request.estimated_completion_tokens > 0;
  const Attempt attempt{request.id,          request.key,
                        request.class_index, request.model_index,
                        is_sized ? &size : nullptr, request.estimated_completion_tokens,
                        request.first_arrived,      request.order,
                        request.early};
  KeyState* const key = request.key;
  const bool may_come_back = key->usable && !key->retired;
  forget(now, request, RateCharge::GiveBack);
  if (may_come_back) offer_ticket(now, attempt, refusal);
  return refusal;
}

std::int64_t Admission::State::estimate(const KeyState& key, const Resolved& resolved,
                                        const RequestSize& size) const {
  const LengthEstimate length = key.length_or_start(resolved.model_index, resolved.class_index);
  return size.choices * length.tokens(size.max_tokens);
}

tl::expected<void, Refusal> Admission::take_place(Instant now, RequestId id,
                                                  const Resolved& resolved) {
  state_->tick(now);
  KeyState* key = state_->open_key(resolved);
  if (key == nullptr) return tl::unexpected(key_disabled());
  const State::Claim claim = state_->claim_ticket(now, *key, resolved, nullptr);
  if (auto refusal = check_rates(now, state_->principals.path(*key), claim.standing())) {
    refusal->shown = claim.use;
    return refused(std::move(*refusal), id);
  }
  Request& request = state_->arrive(now, id, *key, resolved);
  state_->take_up(request, claim);
  if (state_->may_start_soon(request)) {
    state_->reading_without_place += 1;
    return {};
  }
  std::vector<State::Displacement> victims;
  if (auto refusal = state_->find_place(now, request, victims)) {
    state_->reading_without_place += 1;  // forget() counts it down again
    return tl::unexpected(state_->give_up(now, request, std::move(*refusal)));
  }
  state_->take_place(now, request, victims);
  return {};
}

tl::expected<Queued, Refusal> Admission::enqueue(Instant now, RequestId id,
                                                 const Resolved& resolved,
                                                 const TokenFacts& tokens) {
  state_->tick(now);
  Request& request = state_->requests.at(id);
  assert(request.phase == Phase::Reading && "enqueue() follows take_place() once");
  const auto give_up = [&](Refusal refusal) {
    return tl::unexpected(state_->give_up(now, request, std::move(refusal)));
  };
  if (state_->open_key(resolved) != request.key) return give_up(key_disabled());
  const auto size =
      size_request(resolved, tokens, state_->engine_below[resolved.class_index]);
  if (!size) return give_up(size.error());
  const std::int64_t estimate = state_->estimate(*request.key, resolved, *size);
  const ClassIndex class_index = request.class_index;
  if (auto refusal = check_budget_capacity(request.path, class_index, *size, estimate)) {
    return give_up(std::move(*refusal));
  }
  request.size = *size;
  request.estimated_completion_tokens = estimate;
  if (request.may_be && (size->prompt_tokens > request.may_be->first ||
                         size->max_completion_tokens() > request.may_be->second)) {
    // Larger than the one that was refused: it waits as if it had come now.
    request.keeps_place = false;
    request.shown = TicketUse::Mismatch;
    request.first_arrived = request.arrived;
    request.order = request.own_order;
  }
  const Standing standing = request.keeps_place ? Standing::Expected : Standing::Newcomer;
  if (auto refusal = check_budgets(now, request.path, class_index, *size, estimate, standing)) {
    return give_up(std::move(*refusal));
  }
  state_->take_hints(request, tokens);
  Queued queued;
  if (auto refusal = state_->start_or_wait(now, request, queued)) {
    return give_up(std::move(*refusal));
  }
  state_->use_early(request);
  return queued;
}

tl::expected<Queued, Refusal> Admission::admit(Instant now, RequestId id, const Resolved& resolved,
                                               const TokenFacts& tokens) {
  state_->tick(now);
  KeyState* key = state_->open_key(resolved);
  if (key == nullptr) return tl::unexpected(key_disabled());
  const Path path = state_->principals.path(*key);
  const auto size =
      size_request(resolved, tokens, state_->engine_below[resolved.class_index]);
  if (!size) return tl::unexpected(size.error());
  const std::int64_t estimate = state_->estimate(*key, resolved, *size);
  const ClassIndex class_index = resolved.class_index;
  if (auto refusal = check_budget_capacity(path, class_index, *size, estimate)) {
    return refused(std::move(*refusal), id);
  }
  const State::Claim claim = state_->claim_ticket(now, *key, resolved, &*size);
  auto rate = check_rates(now, path, claim.standing());
  auto budget = check_budgets(now, path, class_index, *size, estimate, claim.standing());
  cover_budgets(rate, budget);
  if (rate || budget) {
    Refusal refusal = with_jittered_retry(std::move(rate ? *rate : *budget), id);
    refusal.shown = claim.use;
    const bool kept = claim.use == TicketUse::Kept;
    state_->offer_ticket(now,
                         {id, key, class_index, resolved.model_index, &*size, estimate,
                          kept ? claim.ticket->first_arrived : now,
                          kept ? claim.ticket->order : state_->next_order++, claim.early},
                         refusal);
    return tl::unexpected(std::move(refusal));
  }

  Request& request = state_->arrive(now, id, *key, resolved);
  state_->take_up(request, claim);
  state_->reading_without_place += 1;
  request.size = *size;
  request.estimated_completion_tokens = estimate;
  state_->take_hints(request, tokens);
  Queued queued;
  if (auto refusal = state_->start_or_wait(now, request, queued)) {
    return tl::unexpected(state_->give_up(now, request, std::move(*refusal)));
  }
  state_->use_early(request);
  return queued;
}

bool Admission::leave(Instant now, RequestId id) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end()) return state_->unsay(id);
  Request& request = it->second;
  if (request.phase == Phase::Paused) return false;
  if (request.phase == Phase::Running) {
    if (!request.unreported) return false;
    on_ended(now, id, EndKind::Cancelled, ActualUse{});
    return true;
  }
  state_->forget(now, request, State::RateCharge::Keep);
  return true;
}

void Admission::withdraw(Instant now, RequestId id) {
  state_->tick(now);
  const auto it = state_->requests.find(id);
  if (it == state_->requests.end()) return;
  assert(it->second.phase == Phase::Reading && "only a request that is being read proves invalid");
  state_->forget(now, it->second, State::RateCharge::GiveBack);
}

}  // namespace turnstile::policy
