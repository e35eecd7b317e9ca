// engine_thread.h: one engine on its own thread, behind an EnginePort.
//
//   I/O thread                                 engine thread
//   try_submit -> [SpscChain] ------------+
//   cancel, pause, resume -> [SpscChain]+ |    loop:
//                                       v v      read calls, then submissions, then call
//                                     engine     no work: sleep on `work` (eventfd)
//   try_take  <- [SpscRing reports] <-- step     take an empty report; none: sleep as well
//   give_back -> [SpscRing spare]   -------->    step(), push, signal `ready` (eventfd)
//
// The sleeper says what it lacks, mail or a report, and nothing else wakes it: reports come back
// while the first token is on its way to the client, and a thread that finds nothing to do would
// take the processor from it.
//
// A fixed number of reports exists and the ring holds all of them, so a push cannot fail. When the
// I/O thread is late the engine runs out of empty reports and waits; the I/O thread never waits for
// the engine, so neither can block the other for good.
//
// The mail is read between the layers of a step too, for the cancels in it (engine.h).
//
// Cancels and pauses are read before the submissions: one that was read was sent after its request,
// so draining the submissions afterwards is sure to find the request first.
//
// Room: no open request waits for another's. Who is paused stays open without a slot, so slots do
// not bound the open requests; connections do (most_engine_requests() in served_model.h). So the
// chains grow to the most mail that was ever unread, which is, for each open request, its
// engine::Request and 2 * kMostPauses + 1 calls of 16 bytes.
//
// Invariant: never more requests are open than `most_open_requests`. What is open on a connection
//            stays below; only who tears down more of them within one step than there are slots,
//            none of which a report has told the end of, comes there, and the next is not taken.
// Thread:    EnginePort's methods on the I/O thread; the rest is private to the engine thread.
// Lifetime:  the constructor starts the thread; the destructor stops it after the running step and
//            joins. Open requests are then dropped without events.
// Errors:    an exception out of the engine is a fault: the thread ends, fault() says why.
// Cost:      per step one eventfd write at most, no allocation once reports and chains have grown.
// Tests:     tests/gateway/engine_thread_test.cpp (suite tsan: submit, cancel, shutdown races).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "gateway/clock.h"
#include "gateway/engine_port.h"
#include "gateway/spsc_chain.h"
#include "gateway/spsc_ring.h"
#include "gateway/wake_up.h"

namespace turnstile::gateway {

class EngineThread final : public EnginePort, private engine::StepMail {
 public:
  // Reports in flight: enough that a late I/O thread does not stop the engine for some ten steps.
  static constexpr std::size_t kReports = 16;

  // `most_open_requests`: submitted and not yet ended, paused ones too; absent: without limit.
  EngineThread(std::unique_ptr<engine::Engine> engine, const Clock& clock,
               std::optional<std::size_t> most_open_requests);
  ~EngineThread() override;
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  bool try_submit(engine::Request request) override;
  void cancel(engine::RequestId id) override;
  void pause(engine::RequestId id) override;
  void resume(engine::RequestId id) override;
  std::unique_ptr<StepReport> try_take() override;
  void give_back(std::unique_ptr<StepReport> report) override;
  policy::Instant last_beat() const override;
  std::optional<std::string> fault() const override;

  // Readable when there is a report to take or a fault to see. Call clear_ready() first, then
  // try_take() until it is empty: what comes later signals again.
  int ready_fd() const { return ready_.fd(); }
  void clear_ready();

  // How often a call above has woken the engine's thread. For tests.
  std::uint64_t wakes() const { return wakes_; }

 private:
  enum class CallKind : std::uint8_t { Cancel, Pause, Resume };
  struct Call {
    engine::RequestId id = 0;
    CallKind kind = CallKind::Cancel;
  };
  void call(engine::RequestId id, CallKind kind);
  void run();
  void loop();
  void read() override { read_mail(); }  // between the layers of a step
  void read_mail();
  void sleep();
  enum Need : std::uint8_t { kNothing = 0, kMail = 1, kReport = 2 };
  void wake_engine(Need brought);
  void beat();

  std::unique_ptr<engine::Engine> engine_;  // engine thread, once started
  const Clock& clock_;
  const std::optional<std::size_t> most_open_requests_;

  SpscChain<engine::Request> submissions_;
  SpscChain<Call> calls_;
  SpscRing<std::unique_ptr<StepReport>> reports_;
  SpscRing<std::unique_ptr<StepReport>> spare_;
  WakeUp work_;
  WakeUp ready_;

  // I/O thread only.
  std::size_t open_requests_ = 0;
  std::uint64_t wakes_ = 0;

  // Engine thread only.
  std::vector<Call> to_call_;
  std::unique_ptr<StepReport> empty_report_;

  // What the engine's thread sleeps for, `Need`s added up: set before its last look, each taken
  // back by who brings it.
  std::atomic<std::uint8_t> sleeps_for_{kNothing};
  // Set when `ready_` is signalled and not yet cleared, to save the second write.
  std::atomic<bool> ready_signalled_{false};
  std::atomic<bool> stop_{false};
  std::atomic<policy::Duration::rep> beat_ns_{0};
  std::string fault_text_;           // written before `faulted_` is set, never after
  std::atomic<bool> faulted_{false};

  std::thread thread_;  // last: everything above exists when it starts
};

}  // namespace turnstile::gateway
