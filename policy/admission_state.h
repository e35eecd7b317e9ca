// admission_state.h: the state of Admission and the steps its transactions are made of. Private to
// the admission_*.cpp files; the contract is in admission.h.
//
// Every public call is a transaction: it first asks (nothing is changed), then takes. What a
// request holds is in its Request; forget() is the one place where a request leaves, so that every
// permit is released there or nowhere.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/admission.h"
#include "policy/ledger.h"
#include "policy/meter.h"
#include "policy/permit.h"
#include "policy/principals.h"
#include "policy/request_size.h"
#include "policy/share_tree.h"
#include "policy/waiting_room.h"

namespace turnstile::policy {

enum class Phase : std::uint8_t {
  Reading,  // arrived and paid its request rate; its tokens are being counted
  Waiting,  // in the waiting room, with a place and its budgets reserved
  Running,  // holds a lease
};

struct Request {
  RequestId id{};
  Phase phase = Phase::Reading;
  KeyState* key = nullptr;
  Path path{};
  ClassIndex class_index = 0;
  std::size_t model_index = 0;
  Instant arrived{};
  Instant deadline{};  // of the queue: arrived + queue_ttl

  RequestSize size;
  std::int64_t estimated_completion_tokens = 0;
  Ledger ledger;
  Permit place;  // queue meters; empty when it needs none
  Permit lease;  // inflight meters, slots, KV blocks; empty until dispatched
  WaitingRoom::Entry entry;
  std::vector<Check> checks;

  bool unreported = false;  // dispatched, and dispatch() has not said so yet
  std::optional<Instant> last_tokens_at;
};

struct Admission::State {
  State(std::shared_ptr<const PolicySet> policy_set, EngineFacts engine_facts);

  // Life of a request.
  void tick(Instant now);
  KeyState* open_key(const Resolved& resolved);
  Request& arrive(Instant now, RequestId id, KeyState& key, const Resolved& resolved);
  enum class RateCharge : std::uint8_t { Keep, GiveBack };
  void forget(Instant now, Request& request, RateCharge rate);
  void refuse_waiting(Instant now, Request& request, Refusal refusal);
  void leave_room(Request& request);

  // Gates. Each returns why not, or takes what it names.
  std::int64_t estimate(const KeyState& key, const Resolved& resolved,
                        const RequestSize& size) const;
  std::optional<Refusal> start_or_wait(Instant now, Request& request, Queued& queued);
  std::optional<Refusal> acquire_place(Instant now, Request& request);
  bool may_start_soon(const Request& request) const;
  bool can_start(const Request& request) const;
  bool passes_gates(const Request& request) const;
  bool fits_engine(const RequestSize& size) const;
  void start(Instant now, Request& request);
  void refresh_gates(const Path& path);
  std::array<Meter*, 5> queue_meters(const Request& request);

  // How long until something is likely to be free; see retry_hint.cpp.
  Duration until_place(Instant now, const Request& request, const Principal* scope) const;
  Duration until_served(Instant now, ClassIndex class_index) const;
  Duration expected_rest(const Request& request) const;
  void learn_pace(Instant now, Request& request, std::int64_t generated);

  std::shared_ptr<const PolicySet> policy;
  EngineFacts engine;
  std::vector<Model> models;

  Meter kv_blocks;
  Meter sequence_slots;
  Meter queue_all;
  std::deque<Meter> queue_by_class;  // a deque, because meters do not move
  ShareTree shares;
  Principals principals;
  WaitingRoom room;

  // Declared after the meters: what requests hold is released before the meters go.
  std::unordered_map<RequestId, Request> requests;
  std::vector<Outcome> unreported;
  std::int64_t running = 0;
  std::int64_t reading_without_place = 0;
  std::uint64_t next_order = 0;
  Instant latest{};
  std::int64_t pace_ns;  // mean time of one token of a running sequence
};

}  // namespace turnstile::policy
