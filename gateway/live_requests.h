// live_requests.h: where reports of admission and engine find the request they are about.
//
//   engine reports --take_reports()--> LiveRequest::on_event --> policy charged --> Progress
//   admission      --dispatch()------> LiveRequest::on_dispatched/on_refused --> mailbox
//
// An engine request id is the policy id and the index of the prompt; ids are never used twice, so a
// late report of a request that is gone finds nothing and is dropped.
//
// Thread:    I/O.
// Cost:      one hash look-up for each run of events of one request; no allocation per token.
// Tests:     tests/gateway/completion_test.cpp, tests/sim/spine_sim_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "gateway/engine_port.h"
#include "gateway/live_request.h"
#include "gateway/metrics/metrics.h"
#include "policy/admission.h"

namespace turnstile::gateway {

// kMaxPrompts prompts of one request.
inline constexpr unsigned kPromptIndexBits = 5;

inline engine::RequestId engine_request_id(policy::RequestId id, std::size_t prompt_index) {
  return static_cast<std::uint64_t>(id) << kPromptIndexBits | prompt_index;
}
inline std::size_t prompt_index_of(engine::RequestId id) {
  return id & ((std::uint64_t{1} << kPromptIndexBits) - 1);
}

class LiveRequests {
 public:
  policy::RequestId next_id() { return policy::RequestId{++last_id_}; }
  void add(LiveRequest& request);
  void remove(policy::RequestId id);
  std::size_t size() const { return by_id_.size(); }

  // Reads every report that is out. True when something may have been freed.
  bool take_reports(EnginePort& engine, policy::Admission& admission, Metrics& metrics,
                    policy::Instant now);

  // Lets admission start and refuse what it may.
  void dispatch(policy::Admission& admission, policy::Instant now);

  // Ends the requests of the keys for which `is_cancelled` is true (on_revoke = "cancel").
  void revoke_keys(const std::function<bool(std::string_view key_id)>& is_cancelled);

  // The engine is gone: every request that it holds ends here.
  void fail_all();

 private:
  LiveRequest* find(policy::RequestId id);
  void read(const StepReport& report, policy::Instant now);

  std::unordered_map<std::uint64_t, LiveRequest*> by_id_;
  std::vector<LiveRequest*> touched_;  // by the report at hand
  std::vector<policy::Outcome> outcomes_;
  std::uint64_t last_id_ = 0;
};

}  // namespace turnstile::gateway
