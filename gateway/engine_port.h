// engine_port.h: the I/O thread's way to an engine.
//
//            try_submit, cancel, pause, resume           (values in)
//   spine ----------------------> [ engine thread or the simulator's fake ]
//         <----------------------
//            StepReport, one a step                      (values out; go back for reuse)
//
// Contract of every implementation (tests/gateway/engine_thread_test.cpp; the simulator counts on
// it):
//   1. A submitted request gives the events of engine/step_output.h, in that order, and exactly one
//      Finished event with `request_done`.
//   2. Reports come in the order of the steps; none is lost, however late the reader is. When all
//      reports are out, the engine waits for one to come back.
//   3. Cancels and pauses never wait behind submitted work. They are read before the next step
//      begins and find their request even when both were sent since the last step.
//   4. After a fault no further report comes; fault() tells why.
//
// Thread:    I/O. The engine's side is the implementation's business.
// Two implementations: EngineThread (engine_thread.h) and tests/support/fake_engine.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/request.h"
#include "engine/step_output.h"
#include "policy/instant.h"

namespace turnstile::gateway {

struct StepReport {
  engine::StepOutput output;
  policy::Instant began{};
  policy::Instant ended{};
};

class EnginePort {
 public:
  virtual ~EnginePort() = default;

  // False: it is not taken. The engine's thread takes whoever has a permit, however many others are
  // open and paused, up to the bound in engine_thread.h.
  virtual bool try_submit(engine::Request request) = 0;

  // At most once for a request that was submitted; unknown and finished ids are ignored.
  virtual void cancel(engine::RequestId id) = 0;

  // The engine sets the request aside until resume(): its blocks and slots are free for what is
  // submitted afterwards. Read like a cancel; ids as there. Each at most kMostPauses times a
  // request.
  virtual void pause(engine::RequestId id) = 0;
  virtual void resume(engine::RequestId id) = 0;
  static constexpr std::size_t kMostPauses = 2;

  // The oldest report that was not taken yet, or null. Give it back when its events are read.
  virtual std::unique_ptr<StepReport> try_take() = 0;
  virtual void give_back(std::unique_ptr<StepReport> report) = 0;

  // When the engine last showed that it lives: at each step, and each second while it has no work.
  virtual policy::Instant last_beat() const = 0;

  // Why the engine stopped, a sentence; absent while it runs.
  virtual std::optional<std::string> fault() const = 0;
};

}  // namespace turnstile::gateway
