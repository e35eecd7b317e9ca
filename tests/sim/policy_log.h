// policy_log.h: an Admission whose every call and answer is written down, and the replay of it.
//
// The log is what a recorder beside the real one would keep: arrivals with their sizes, what each
// step reported, ends, keys, and the times that policy was told. Replayed into a fresh Admission it
// must give every answer again, word for word (admission.md's run and replay parity, I16).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/admission.h"
#include "tests/sim/policy_world.h"

namespace turnstile::policy::sim {

struct LoggedCall {
  enum class Kind : std::uint8_t {
    SetKeys, Resolve, TakePlace, Enqueue, Admit, Dispatch, Bound, BlocksReturned, Tokens, Step,
    Ended, Leave, Withdraw
  };
  Kind kind{};
  Instant now{};
  RequestId id{};
  std::vector<KeyNode> keys;
  std::string key_id;
  std::optional<std::string> class_name;
  std::optional<RequestId> ticket;
  Resolved resolved;  // as the caller kept it from an earlier Resolve
  TokenFacts tokens;
  std::int64_t first = 0;
  std::int64_t second = 0;
  EndKind end{};
  std::string answer;
};

class LoggedAdmission {
 public:
  explicit LoggedAdmission(const World& world)
      : admission_(std::make_unique<Admission>(world.policy, world.engine)) {}

  std::vector<KeyProblem> set_keys(Instant now, const std::vector<KeyNode>& keys);
  tl::expected<Resolved, Refusal> resolve(Instant now, const Ask& ask);
  tl::expected<void, Refusal> take_place(Instant now, RequestId id, const Resolved& resolved);
  tl::expected<Queued, Refusal> enqueue(Instant now, RequestId id, const Resolved& resolved,
                                        const TokenFacts& tokens);
  tl::expected<Queued, Refusal> admit(Instant now, RequestId id, const Resolved& resolved,
                                      const TokenFacts& tokens);
  void dispatch(Instant now, std::vector<Outcome>& out);
  void on_bound(Instant now, RequestId id, std::int64_t cached, std::int64_t blocks);
  void on_blocks_returned(Instant now, RequestId id, std::int64_t blocks);
  void on_tokens(Instant now, RequestId id, std::int64_t prompt, std::int64_t generated);
  void on_step(Instant now, Duration took);
  std::optional<Settlement> on_ended(Instant now, RequestId id, EndKind kind, ActualUse actual);
  bool leave(Instant now, RequestId id);
  void withdraw(Instant now, RequestId id);

  // What only asks.
  const Admission* operator->() const { return admission_.get(); }
  const Admission& operator*() const { return *admission_; }
  const std::vector<LoggedCall>& calls() const { return calls_; }

 private:
  using Queueing = tl::expected<Queued, Refusal> (Admission::*)(Instant, RequestId,
                                                                const Resolved&,
                                                                const TokenFacts&);
  LoggedCall& note(LoggedCall::Kind kind, Instant now, RequestId id);
  tl::expected<Queued, Refusal> queue_by(Queueing how, LoggedCall::Kind kind, Instant now,
                                         RequestId id, const Resolved& resolved,
                                         const TokenFacts& tokens);

  std::unique_ptr<Admission> admission_;
  std::vector<LoggedCall> calls_;
};

// Absent when every answer came again; else the first call whose answer differs, with both.
std::optional<std::string> replay(const World& world, const std::vector<LoggedCall>& calls);

}  // namespace turnstile::policy::sim
