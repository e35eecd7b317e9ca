// live_request.h: one request from its verdict to its end, and the lease on all that it holds.
//
//   take_place() a long text's, while it is counted; withdraw(): it was invalid, as if never here
//     |
//   ask() --Refusal--> nothing is held
//     |
//   waiting ----> admission reports: on_dispatched(), on_refused()
//     |
//   submit() ---> engine reports: on_event() ... every engine request is done
//     |
//   release() <-- every exit passes here, once: policy settled, engine told, registry left
//
// One HTTP request may carry several prompts; each is an engine request of its own, all under one
// verdict and one permit.
//
// The permit goes back when the engine has confirmed the end, because until then its blocks are
// still held: so the spine cancels, waits for engine_is_done(), and then releases. Only when the
// coroutine is torn down (an exception, the end of the process) does the destructor do it early.
//
// Invariants:
//   1. From take_place(), else from ask(), until release() policy and the registry know the id;
//      before and after they do not.
//   2. An engine request is cancelled at most once.
//
// Thread:    I/O.
// Lifetime:  in the frame of its coroutine; the registry refers to it until release().
// Tests:     tests/gateway/completion_test.cpp, tests/sim/spine_sim_test.cpp (conservation).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tl/expected.hpp>

#include "engine/request.h"
#include "engine/step_output.h"
#include "gateway/api/generation_response.h"
#include "gateway/mailbox.h"
#include "gateway/records/records.h"
#include "gateway/token_stream.h"
#include "policy/admission.h"

namespace turnstile::gateway {

struct SpineContext;

class LiveRequest {
 public:
  LiveRequest(SpineContext& context, Mailbox& mailbox, RequestRecord& record);
  ~LiveRequest();
  LiveRequest(const LiveRequest&) = delete;
  LiveRequest& operator=(const LiveRequest&) = delete;

  policy::RequestId id() const { return id_; }
  const RequestRecord& record() const { return record_; }

  // The first transaction of a long text: a place before it is counted. After it ask(), withdraw()
  // or release().
  tl::expected<void, policy::Refusal> take_place(const policy::Resolved& resolved);
  void withdraw();

  // The verdict. On success the request is held: release() must follow.
  tl::expected<policy::Queued, policy::Refusal> ask(const policy::Resolved& resolved,
                                                    const policy::TokenFacts& facts);

  // Hands the prompts to the engine; `stream` gets what it generates. False: the engine is full.
  bool submit(std::vector<engine::Request> requests, TokenStream& stream);

  // Stops what the engine still computes; nothing more is streamed.
  void cancel();
  bool engine_is_done() const { return open_engine_requests_ == 0; }
  bool engine_has_failed() const { return engine_has_failed_; }  // before it was done

  // Settles everything. `kind` is what policy is told when a permit was held.
  void release(policy::EndKind kind);

  // From LiveRequests.
  void on_dispatched(const policy::Dispatch& dispatch);
  void on_refused(policy::LateRefusal refusal);
  void on_paused();   // the permit went to a higher class; the engine is told at once
  void on_resumed();  // it is here again
  void on_budget_exhausted();  // the answer ends here, as by its length
  void on_event(const engine::Event& event, const engine::StepOutput& output,
                policy::Instant now);
  void end_of_step(policy::Instant now);  // once after the events of a step
  void on_key_revoked() { mailbox_.put(EventKind::KeyRevoked); }
  void on_engine_fault();

  // For the timeouts of the spine.
  std::optional<policy::Instant> last_token_at() const { return last_token_at_; }
  bool is_paused() const { return paused_sequences_ > 0; }
  const Usage& usage() const { return usage_; }

 private:
  enum class Hold : std::uint8_t { Nothing, Place, Waiting, Permit, Released };

  void stop_engine();
  void on_choice_finished(const engine::Event& event, policy::Instant now);

  SpineContext& context_;
  Mailbox& mailbox_;
  RequestRecord& record_;
  policy::RequestId id_;
  Hold hold_ = Hold::Nothing;

  TokenStream* stream_ = nullptr;
  std::vector<engine::RequestId> engine_requests_;
  std::uint32_t open_engine_requests_ = 0;
  bool is_cancelled_ = false;
  bool is_set_aside_ = false;
  bool is_pause_expected_ = false;  // by on_paused(), and no event of it has come yet
  bool is_exhausted_ = false;
  bool engine_has_failed_ = false;

  Usage usage_;
  std::int64_t prompt_tokens_computed_ = 0;
  std::int64_t step_prompt_tokens_ = 0;  // since the last end_of_step()
  std::int64_t step_generated_ = 0;
  std::int64_t blocks_per_choice_ = 0;
  std::int64_t blocks_held_ = 0;         // of the reservation
  std::uint32_t paused_sequences_ = 0;
  std::optional<policy::Instant> last_token_at_;
  struct ChoiceClock {
    std::uint64_t tokens = 0;
    std::optional<policy::Instant> last_token;
  };
  std::vector<ChoiceClock> choice_clocks_;
};

}  // namespace turnstile::gateway
