// policy_books.h: the simulator's own books, kept apart from the code under test.
//
// Every call to Admission and every answer is also entered here, in the plainest way: a list of
// requests with their stage, and one level per bucket. From it follow the promises that are checked
// after each step. Nothing here looks into Admission, and no formula is shared with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/admission.h"
#include "tests/sim/policy_world.h"

namespace turnstile::policy::sim {

enum class Stage : std::uint8_t { Reading, Waiting, Running };

struct BookedRequest {
  RequestId id{};
  Stage stage = Stage::Reading;
  std::string key_id;
  std::string team;
  std::string department;
  ClassIndex class_index = 0;
  std::int64_t order = 0;  // of arrival, or of the first attempt when it keeps that place
  Instant arrived{};
  Instant first_arrived{};
  std::optional<RequestId> shown;  // a ticket
  Instant deadline{};
  Duration usual_wait{};  // to the deadline, of who does not come back as told
  std::int64_t prompt = 0;
  std::int64_t max_tokens = 0;
  std::int64_t choices = 1;
  std::int64_t blocks = 0;        // held now; before the start what it will hold first
  std::int64_t worst_blocks = 0;  // all it may ever need
  std::int64_t returned = 0;      // by the engine
  bool grows = false;             // holds what it uses, not the worst case
  std::int64_t estimate = 0;
  bool reported = false;  // its Dispatch was seen
  bool was_started = false;  // it was paused: waits again, or runs again
  std::int64_t pauses = 0;

  // What the fake engine did with it so far.
  std::int64_t cached = 0;
  std::int64_t computed = 0;
  std::int64_t generated = 0;
  std::int64_t length = 0;  // tokens of each choice at which it stops by itself
  bool bound = false;
};

struct Counts {
  std::int64_t arrived = 0;
  std::int64_t refused = 0;
  std::int64_t completed = 0;
  std::int64_t client_gone = 0;
  std::int64_t timed_out = 0;
  std::int64_t fault = 0;
};

class Books {
 public:
  explicit Books(const World& world);

  void set_keys(const std::vector<KeyNode>& keys);

  // The request exists and paid its request rate.
  BookedRequest& open(Instant now, RequestId id, const Resolved& resolved, Instant deadline);
  // It was given a size and a place or a start; its budgets are reserved.
  std::optional<std::string> enter(Instant now, BookedRequest& request, const TokenFacts& tokens,
                                   const Queued& queued);
  // A Dispatch was reported. Checks order and room when it comes from the waiting room.
  std::optional<std::string> start(Instant now, const Dispatch& dispatch);
  // A higher class took its place, and it got one again.
  std::optional<std::string> pause(const Pause& pause);
  std::optional<std::string> resume(Instant now, const Resume& resume);
  // A refusal gave a ticket: the place that its holder keeps. `own`: the refused request, when the
  // books know it.
  void remember(Instant now, const Refusal& refusal, std::optional<RequestId> shown,
                const BookedRequest* own);
  // The engine moved on: restates what the budgets should stand at.
  void restate(Instant now, const BookedRequest& request);
  void return_blocks(BookedRequest& request, std::int64_t blocks);
  void grow(BookedRequest& request);
  // The end. Checks that the settlement is the actual use, to the token.
  std::optional<std::string> end(Instant now, RequestId id, EndKind kind,
                                 const Settlement& settlement);
  // It goes without having run. A refusal and a withdrawal give the request rate back.
  void forget(Instant now, RequestId id, bool rate_back);

  // Nothing that could start waits without a reason (after dispatch()).
  std::optional<std::string> check_work_conservation(Instant now) const;
  // Admission has as many requests as came and did not go.
  std::optional<std::string> check_owned(const Admission& admission) const;
  // Conservation of requests, and every meter that follows from the list of requests.
  std::optional<std::string> check_meters(Instant now, const Admission& admission) const;

  BookedRequest* find(RequestId id);
  std::vector<RequestId> in(Stage stage) const;
  std::vector<RequestId> paused() const;
  bool empty() const { return requests_.empty(); }
  Counts counts;

 private:
  // A bucket as a deficit: tokens missing from full, in units of one microsecond's worth at a rate
  // of one a minute. Never negative.
  struct Deficit {
    std::int64_t per_minute = 0;
    std::int64_t capacity = 0;
    std::int64_t units = 0;
    Instant at{};
    void move(Instant now, std::int64_t tokens);
    std::int64_t tokens_missing(Instant now) const;
  };
  struct TokenBudget {
    Deficit deficit;
    NodeRules rules;
    std::map<RequestId, std::int64_t> standing;  // what it was last charged for each request
    std::map<RequestId, std::int64_t> paid;      // charge "hard": completion tokens paid so far
  };

  bool in_node(const BookedRequest& request, const std::string& scope) const;
  std::int64_t count(Stage stage, const std::string& scope) const;
  std::optional<std::string> check_start(Instant now, const BookedRequest& request,
                                         bool due) const;
  bool passes_gates(const BookedRequest& request) const;
  // What must hold for a start, and what suffices for one.
  bool may_fit(const BookedRequest& request, std::int64_t watermark_ppm) const;
  bool surely_fits(const BookedRequest& request, std::int64_t watermark_ppm) const;
  bool has_head(Instant now, ClassIndex class_index) const;
  bool a_head_does_not_fit(Instant now, ClassIndex class_index, std::int64_t watermark_ppm) const;
  std::int64_t watermark(const BookedRequest& request) const;
  void take_engine(BookedRequest& request);
  void leave_engine(const BookedRequest& request);
  bool is_head(Instant now, const BookedRequest& request) const;
  std::int64_t floor_of(const TokenBudget& budget, const BookedRequest& request) const;
  std::int64_t reserved(const TokenBudget& budget, const BookedRequest& request) const;
  void charge(Instant now, TokenBudget& budget, const BookedRequest& request,
              std::int64_t standing);
  void close_budgets(Instant now, const BookedRequest& request, bool keep_rate);

  const World& world_;
  std::map<std::string, std::optional<std::int64_t>> inflight_limits_;  // by "team/x", ...
  std::map<std::string, std::vector<ClassValue>> inflight_by_class_;    // the same
  std::map<RequestId, BookedRequest> requests_;
  std::map<std::string, Deficit> rates_;        // by scope; departments and teams with a limit
  std::map<std::string, TokenBudget> budgets_;  // by scope; departments and teams with a limit
  struct Place {
    std::int64_t order = 0;
    Instant first_arrived{};
  };
  std::map<RequestId, Place> places_;  // by ticket
  std::int64_t next_order_ = 0;
  std::int64_t blocks_ = 0;
  std::int64_t worst_blocks_ = 0;
  std::int64_t slots_ = 0;
};

}  // namespace turnstile::policy::sim
