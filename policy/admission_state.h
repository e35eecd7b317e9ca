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
#include "policy/arrival_checks.h"
#include "policy/floor_credits.h"
#include "policy/ledger.h"
#include "policy/length_quantile.h"
#include "policy/meter.h"
#include "policy/permit.h"
#include "policy/principals.h"
#include "policy/request_size.h"
#include "policy/share_tree.h"
#include "policy/step_time.h"
#include "policy/ticket_book.h"
#include "policy/ttft_predictor.h"
#include "policy/waiting_room.h"

namespace turnstile::policy {

enum class Phase : std::uint8_t {
  Reading,  // arrived and paid its request rate; its tokens are being counted
  Waiting,  // in the waiting room, with a place and its budgets reserved
  Running,  // holds a lease
  Paused,   // was running, in the waiting room again; its ledger goes on
};

struct Request {
  RequestId id{};
  Phase phase = Phase::Reading;
  KeyState* key = nullptr;
  Path path{};
  ClassIndex class_index = 0;
  std::size_t model_index = 0;
  Instant arrived{};
  std::uint64_t order = 0;  // of arrival
  Instant deadline{};  // of the queue: arrived + queue_ttl, or when its start would be too late
  Duration first_token_within{};  // of arrival: the class's ttft, or the client's deadline;
                                  // three times as long for who came back as told

  RequestSize size;
  std::int64_t estimated_completion_tokens = 0;
  std::int64_t cached_hint = 0;  // prompt tokens that need no computing, as far as is known
  std::int64_t units() const {
    return kUnitsPerPromptToken * (size.prompt_tokens - cached_hint) +
           kUnitsPerGeneratedToken * estimated_completion_tokens;
  }
  Ledger ledger;
  Permit place;  // queue meters; empty when it needs none
  Permit lease;  // inflight meters, slots, KV blocks; empty until dispatched
  WaitingRoom::Entry entry;
  Checks checks;

  bool exhausted = false;   // its budget ended it
  bool unreported = false;  // dispatched, and dispatch() has not said so yet
  std::int64_t pauses = 0;
  bool for_its_floor = false;          // started because its class was due: nobody pauses it
  Instant started{};                   // last dispatched or resumed

  // Cache blocks while it runs; see kv_peak.cpp.
  bool reserves_worst_case = true;     // all it may ever need, from the start
  std::int64_t blocks_returned = 0;    // by the engine, out of what was reserved
  std::int64_t expected_length = 0;    // by the class's quantile; asked again as the answer grows
  std::int64_t ask_again_at = 0;

  // Of the first attempt when it came back as told; else its own.
  bool keeps_place = false;
  TicketUse shown = TicketUse::None;
  std::optional<RequestId> early;  // the ticket that it showed too soon
  Instant first_arrived{};
  std::uint64_t own_order = 0;
  std::optional<std::pair<std::int64_t, std::int64_t>> may_be;  // prompt, completion; to be checked

  std::optional<Instant> last_tokens_at;
  std::int64_t prefill_left = 0;       // running: prompt tokens still to be computed
  std::optional<Duration> predicted;   // when it had to wait; until its first token
  Instant predicted_at{};
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
  bool unsay(RequestId id);
  std::optional<std::string> unreported_fault() const;
  void enter_room(Request& request);
  void take_from_room(Request& request);
  void leave_room(Request& request);
  void take_hints(Request& request, const TokenFacts& tokens) const;

  // Tickets; see tickets.cpp.
  struct Claim {
    TicketUse use = TicketUse::None;
    std::optional<Ticket> ticket;     // Kept: taken out of the book
    std::optional<RequestId> early;   // Early: still in it
    Standing standing() const {
      return use == TicketUse::Kept ? Standing::Expected : Standing::Newcomer;
    }
  };
  Claim claim_ticket(Instant now, KeyState& key, const Resolved& resolved,
                     const RequestSize* size);
  void take_up(Request& request, const Claim& claim);
  void expire_tickets(Instant now);
  void drop_ticket(RequestId id);
  void keep_next();
  void expect_back(const Ticket& ticket, std::int64_t sign);
  bool can_keep(const Ticket& ticket);
  std::optional<std::string> awaited_fault() const;
  struct Attempt {
    RequestId id{};
    KeyState* key = nullptr;
    ClassIndex class_index = 0;
    std::size_t model_index = 0;
    const RequestSize* size = nullptr;  // null: not known
    std::int64_t estimated_completion_tokens = 0;
    Instant first_arrived{};
    std::uint64_t order = 0;
    std::optional<RequestId> early;  // the ticket it showed too soon
  };
  // Adds the ticket to a refusal that names a wait.
  void offer_ticket(Instant now, const Attempt& attempt, Refusal& refusal);
  // Whoever is let in before its time needs its ticket no more.
  void use_early(const Request& request) {
    if (request.early && tickets.find(*request.early) != nullptr) drop_ticket(*request.early);
  }
  Refusal give_up(Instant now, Request& request, Refusal refusal);

  // Gates. Each returns why not, or takes what it names.
  std::int64_t estimate(const KeyState& key, const Resolved& resolved,
                        const RequestSize& size) const;
  std::optional<Refusal> start_or_wait(Instant now, Request& request, Queued& queued);
  WaitingRoom::Entry entry_of(const Request& request) const;
  void end_in_time(Request& request) const;
  bool may_start_soon(const Request& request) const;
  bool can_start(const Request& request);
  bool passes_gates(const Request& request) const;
  bool nobody_ahead(ClassIndex class_index) const;
  bool nobody_waits(ClassIndex class_index) const;
  bool fits_engine(const Request& request, std::int64_t watermark_ppm);
  void start(Instant now, Request& request, bool due);
  void resume(Instant now, Request& request, bool due);
  KvDecision take_lease(Instant now, Request& request);

  // Pausing lower classes; see preemption.cpp.
  std::vector<Request*> find_victims(const Request& request, std::int64_t watermark_ppm);
  bool fits_without(const Request& request, std::int64_t watermark_ppm,
                    std::span<Request* const> paused);
  void pause(Request& victim, RequestId by);

  void refresh_backlogs();
  std::int64_t units_left(ClassIndex class_index) const;
  std::int64_t watermark(ClassIndex class_index) const {
    return policy->classes[class_index].watermark_ppm;
  }

  // The class to serve next: the best that is due, else the best that has work.
  struct Band {
    ClassIndex class_index = 0;
    bool due = false;
  };
  std::optional<Band> next_band();
  std::optional<ClassIndex> best_ready() const;
  std::optional<ShareTree::NodeIndex> pick(Instant now, ClassIndex class_index);
  bool keeps_gaps(const Request& request, std::span<Request* const> paused) const;
  bool start_by_pausing(Instant now);

  // Cache blocks; see kv_peak.cpp.
  struct Growth {
    std::int64_t tokens_left = 0;  // until it ends, as expected
    std::int64_t held = 0;         // blocks now
    bool grows = false;            // a block for each so many tokens
  };
  std::int64_t blocks_for(std::int64_t tokens) const;
  std::int64_t first_blocks(const Request& request) const;
  std::int64_t expected_blocks(const Request& request) const;
  Growth growth_of(const Request& request) const;
  std::int64_t kv_peak(const Request& candidate, std::span<Request* const> paused = {});
  void decide_reservation(Request& request) const;
  void expect_length(Request& request) const;
  void cover_growth(Request& request);
  void refresh_gates(const Path& path);

  // A place in the queue: what it takes, and whom it displaces where there is none.
  struct PlaceNeed {
    Meter* meter = nullptr;
    std::int64_t amount = 0;
    const Principal* scope = nullptr;  // null: everybody's
    std::int64_t watermark_ppm = 1'000'000;
  };
  static constexpr std::size_t kMostPlaceNeeds = 8;
  struct PlaceNeeds {
    std::array<PlaceNeed, kMostPlaceNeeds> needs{};
    std::size_t count = 0;
    void add(Meter& meter, std::int64_t amount, const Principal* scope,
             std::int64_t watermark_ppm = 1'000'000) {
      needs[count++] = {&meter, amount, scope, watermark_ppm};
    }
    std::span<const PlaceNeed> all() const { return {needs.data(), count}; }
  };
  struct Displacement {
    RequestId victim{};
    const Meter* full = nullptr;  // what the newcomer needed
  };
  PlaceNeeds place_needs(const Request& request);
  std::optional<Refusal> find_place(Instant now, const Request& request,
                                    std::vector<Displacement>& victims);
  void take_place(Instant now, Request& request, const std::vector<Displacement>& victims);

  // How long until something is likely to be free; see retry_hint.cpp.
  Duration until_place(Instant now, const Request& request, const PlaceNeed& need);
  Duration until_in_time(Instant now, const Request& request);
  std::int64_t units_until_place(const Request& request, const PlaceNeed& need,
                                 std::int64_t wanted) const;
  std::optional<Duration> until_given_up(Instant now, const PlaceNeed& need,
                                         std::int64_t requests_to_go) const;
  Duration expected_rest(const Request& request) const;

  // Predictions; see prediction.cpp.
  struct Release {
    Duration after{};
    RequestId id{};
    std::int64_t slots = 0;
    std::int64_t blocks = 0;
    const Path* path = nullptr;
  };
  void collect_releases();
  void refresh_releases();
  std::optional<std::string> releases_fault() const;
  Duration until_room(const Request& request, std::int64_t ahead_units,
                      std::int64_t requests_behind);
  Duration until_released(std::int64_t ahead_units, std::int64_t slots, std::int64_t blocks) const;
  Duration until_may_run(const Principal& node, std::int64_t queued) const;
  Duration beside_floors(ClassIndex class_index, Duration raw) const;
  std::optional<Prediction> predict(const Request& request, bool starts,
                                    ShareTree::Counting counting);
  std::optional<Refusal> check_first_token(Instant now, Request& request, bool starts,
                                           Queued& queued);
  void set_prefill_left(Request& request, std::int64_t tokens);
  void learn_first_token(Instant now, Request& request);
  void learn_missed(Instant now, Request& request);

  void learn_pace(Instant now, Request& request, std::int64_t generated);

  std::shared_ptr<const PolicySet> policy;
  EngineFacts engine;
  std::vector<EngineFacts> engine_below;  // by class: what its watermark leaves of the engine
  std::vector<Model> models;

  Meter kv_blocks;
  Meter sequence_slots;
  Meter queue_all;
  std::deque<Meter> queue_by_class;  // deques, because meters do not move
  std::deque<Meter> queue_tokens_by_class;
  ShareTree shares;
  Principals principals;
  WaitingRoom room;
  TicketBook tickets;
  FloorCredits floors;
  std::vector<LengthQuantile> lengths;  // by model and class, see length_of()
  LengthQuantile& length_of(const Request& request) {
    return lengths[request.model_index * policy->classes.size() + request.class_index];
  }
  const LengthQuantile& length_of(const Request& request) const {
    return lengths[request.model_index * policy->classes.size() + request.class_index];
  }

  // Declared after the meters: what requests hold is released before the meters go.
  std::unordered_map<RequestId, Request> requests;
  // Of requests that are gone, for those to come: a steady stream of requests allocates nothing.
  std::vector<std::unordered_map<RequestId, Request>::node_type> spare;
  std::vector<Outcome> unreported;  // until dispatch() or unsay()
  std::vector<Request*> on_engine;  // those that run; elements of `requests` do not move
  std::vector<Growth> growths;      // kept to save its allocation
  std::int64_t last_peak = 0;       // of the last fits_engine()
  std::int64_t running = 0;
  std::int64_t reading_without_place = 0;
  std::uint64_t next_order = 0;
  Instant latest{};
  std::int64_t pace_ns;  // mean time of one token of a running sequence
  TtftPredictor predictor;
  StepTime step_time;
  std::int64_t step_sequences = 0;  // that got tokens since the last on_step()
  std::int64_t step_prompt_tokens = 0;
  std::int64_t last_ahead = 0;     // of the last pick(): how far before its turn
  std::int64_t step_units = 0;     // delivered since the last on_step()
  std::int64_t prefill_left = 0;   // over the running requests
  std::int64_t waiting_slots = 0;  // choices and blocks of the requests in the waiting room
  std::int64_t waiting_blocks = 0;
  // By when running requests end, soonest first. What changes one of them says that it is stale; it
  // is made anew once a step, or when it is next asked for.
  std::vector<Release> releases;
  bool releases_are_stale = false;
};

}  // namespace turnstile::policy
