// admission.h: who may use the engine, and when. The single writer of all policy state.
//
// One object holds every meter, bucket, queue and share counter. The I/O thread calls it; between
// two calls all books balance. It never waits and never refuses late what it could refuse early.
//
//                 resolve()            pure: key, class, model
//                    |
//          take_place()                request rates, a place         -- for large prompts, before
//                    |                                                   they are tokenized
//   admit() =     enqueue()            exact tokens: size, budgets, place, predicted first token
//                    |
//               [waiting room]  -- leave(), queue_ttl, displaced -->  gone, everything given back
//                    |
//               dispatch()             best class, fair share, slots, KV blocks: holds a permit
//                    |
//                    +-- Pause <--> Resume     a higher class needs the room; twice at most
//                    |
//      on_bound / on_tokens / on_blocks_returned                        charged as it happens
//                    |
//               on_ended()             settled exactly, permit released exactly once
//
// Order of service: classes are strict. Inside a class department, team and key share by weight,
// counted in tokens computed (share_tree.h). When the request that is next does not fit the engine,
// nothing else starts: a small one that slipped past could hold the big one off forever. A request
// whose own department, team or key runs at its inflight limit is not next; it lets others pass.
// A class that is due for its floor (floor_credits.h) goes before all others.
//
// Refusals leave no trace: every meter is as it was, the request rate included.
//
// Invariants (check_invariants() verifies them; the simulator calls it after every step):
//   1. For each meter 0 <= committed, committed <= capacity unless the capacity was just lowered,
//      and committed is the sum of what the live requests hold.
//   2. Each live request is in exactly one phase: place taken, waiting, running, paused.
//   3. For each bucket: reserved is the sum of the live requests' debits.
//   4. The waiting room's counts, the queue meters and the readiness of the share tree agree.
//   5. What dispatch() has still to tell is about requests that the caller has: about live ones, or
//      it is the one refusal of a request that is gone. Whoever leaves, is withdrawn or has ended
//      hears no more. So each request that was let in ends once: it is told its refusal, or it
//      leaves, is withdrawn or ends. The caller has queued() + running() + untold() requests.
//
// Thread:    I/O thread only; no locking.
// Time:      passed in, never earlier than in the call before.
// Ownership: owns all state; the PolicySet is shared and immutable.
// Errors:    refusals are values. An unknown RequestId in on_tokens/on_bound/on_blocks_returned/
//            on_ended/leave is ignored (the engine may report a request that has just ended);
//            an id used twice, or phases out of order, is the caller's bug and asserts.
// Cost:      resolve, admit: O(depth) look-ups plus O(siblings) when a queue becomes non-empty.
//            dispatch: O(children on the path) for each request started. on_tokens: O(depth).
// Tests:     tests/policy/admission_test.cpp, tests/sim/policy_sim_test.cpp (thousands of seeds).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "policy/facts.h"
#include "policy/instant.h"
#include "policy/key_node.h"
#include "policy/outcome.h"
#include "policy/policy_set.h"
#include "policy/request_id.h"
#include "policy/verdict.h"

namespace turnstile::policy {

// How a dispatched request ended.
enum class EndKind : std::uint8_t {
  Completed,  // charged what was used; teaches the length estimate
  Cancelled,  // the client left or was too slow: charged what was computed
  TimedOut,   // prefill, stall or total limit: charged what was computed
  Fault,      // our engine failed: charged nothing
};

// What the request really used, over all choices. Authoritative: settles whatever on_tokens said.
struct ActualUse {
  std::int64_t prompt_tokens_computed = 0;  // once each, recomputation after a pause not counted
  std::int64_t generated_tokens = 0;
};

// Something about a key that the policy does not allow, for events.jsonl. The key stays known; what
// cannot be understood closes it (its requests get key_disabled) rather than opening it.
struct KeyProblem {
  std::string key_id;
  std::string what;  // a sentence
};

// What set_keys() would report, in the order of `keys`.
std::vector<KeyProblem> key_problems(const PolicySet& policy, const std::vector<KeyNode>& keys);

class Admission {
 public:
  Admission(std::shared_ptr<const PolicySet> policy, EngineFacts engine);
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Replaces the list of keys. State (buckets, counters, running requests) of a key survives by id
  // as long as its team stays the same; limits that shrink cut nothing that runs. Requests that
  // wait for a key that is gone or disabled are refused by the next dispatch(). Ids must be unique
  // (a repeated id is reported and its first entry holds).
  std::vector<KeyProblem> set_keys(Instant now, const std::vector<KeyNode>& keys);

  // Pure. Looks up key, model and class, clamps the class (never refuses for it), and gathers the
  // limits of the path. Refusals: KeyDisabled, ModelNotFound, ModelNotAllowed, InvalidValue
  // (unknown class name, param "class").
  tl::expected<Resolved, Refusal> resolve(Instant now, const Ask& ask) const;

  // The class that a request of the key would get if it asked for none, also while the key may use
  // nothing; of an unknown key the class that the policy falls back to.
  std::string_view class_for(std::string_view key_id) const;

  // Aliases that the key may use, best first; empty for an unknown or disabled key.
  std::vector<std::string> models_for(std::string_view key_id) const;

  // First transaction of a large prompt: request rates, and a place so that tokenizing is bounded
  // by the queue limits. Refusals: RateRequests, QueueFull, KeyDisabled. After success the request
  // is arrived; call enqueue(), leave() or withdraw() later.
  tl::expected<void, Refusal> take_place(Instant now, RequestId id, const Resolved& resolved);

  // Second transaction, after take_place(): size, budgets, place. A refusal gives back what
  // take_place() took and forgets the id. Refusals: InvalidValue, ContextLengthExceeded,
  // InputTooLong, ExceedsBudgetCapacity, BudgetTokens, QueueFull, QueueDeadline,
  // WouldMissDeadline, KeyDisabled.
  tl::expected<Queued, Refusal> enqueue(Instant now, RequestId id, const Resolved& resolved,
                                        const TokenFacts& tokens);

  // Both transactions as one, for prompts that are tokenized at once. The order of refusals is:
  // size, rates, budgets, queue, prediction; a Retry-After covers rates and budgets together.
  tl::expected<Queued, Refusal> admit(Instant now, RequestId id, const Resolved& resolved,
                                      const TokenFacts& tokens);

  // Starts what may start and refuses what waited too long. Appends to `out`, in the order decided.
  // Call it after each batch of events (an arrival with starts_now, an end, a release) and at
  // next_deadline(). An outcome is reported once.
  void dispatch(Instant now, std::vector<Outcome>& out);

  // When dispatch() must be called if nothing else happens; absent when nothing waits.
  std::optional<Instant> next_deadline() const;

  // The engine bound the request to its cache: so many prompt tokens need no computing, so many of
  // the reserved blocks are shared with others and go back.
  void on_bound(Instant now, RequestId id, std::int64_t cached_prompt_tokens,
                std::int64_t blocks_returned);

  // Further blocks went back while the request runs (a choice ended, a stop before max_tokens).
  void on_blocks_returned(Instant now, RequestId id, std::int64_t blocks);

  // Once a step and request, deltas over all choices. Recomputed tokens are not reported.
  void on_tokens(Instant now, RequestId id, std::int64_t prompt_tokens_computed,
                 std::int64_t generated_tokens);

  // Once a step, after its on_tokens(): how long it took. Predictions are made of it.
  void on_step(Instant now, Duration took);

  // The engine confirmed the end (or never got the request): settles the books and releases the
  // permit. Absent when the id is unknown (it ended before).
  std::optional<Settlement> on_ended(Instant now, RequestId id, EndKind kind, ActualUse actual);

  // The client left before dispatch: gives back tokens and place; the request itself stays counted
  // in the request rate. Also right when its Dispatch or its LateRefusal (displaced, key_disabled)
  // has not been reported yet: it then never is. Of who was refused everything was given back, the
  // rate too; a ticket that nobody has heard of is void.
  // Returns false when the id is unknown or already dispatched and reported (then use on_ended()).
  bool leave(Instant now, RequestId id);

  // The request proved invalid after take_place() (cannot be tokenized): as if it had never come.
  void withdraw(Instant now, RequestId id);

  // For the x-ratelimit headers: of the limits on the key's path the one with the least remaining.
  RateView rate_view(Instant now, std::string_view key_id) const;

  // For metrics and state. `keys` adds the meters of keys, which are too many for metrics.
  enum class Detail : std::uint8_t { Shared, WithKeys };
  std::vector<MeterView> meters(Instant now, Detail detail) const;
  std::int64_t queued() const;
  std::int64_t running() const;
  std::int64_t untold() const;  // refused after queueing; the next dispatch() tells them

  const PolicySet& policy() const;

  // Absent when all invariants hold, otherwise the sentence that is broken. O(everything).
  std::optional<std::string> check_invariants(Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::policy
