#include "gateway/engine_thread.h"

#include <cassert>
#include <chrono>
#include <exception>
#include <utility>

namespace turnstile::gateway {
namespace {

// How long the engine sleeps at most; it then shows that it lives and sleeps again.
constexpr std::chrono::milliseconds kBeatInterval{1'000};

// What the chains hold before they first grow.
constexpr std::size_t kUsualMail = 64;

}  // namespace

EngineThread::EngineThread(std::unique_ptr<engine::Engine> engine, const Clock& clock,
                           std::optional<std::size_t> most_open_requests)
    : engine_(std::move(engine)),
      clock_(clock),
      most_open_requests_(most_open_requests),
      submissions_(kUsualMail),
      calls_(kUsualMail),
      reports_(kReports),
      spare_(kReports) {
  for (std::size_t i = 0; i < kReports; ++i) {
    const bool stored = spare_.try_push(std::make_unique<StepReport>());
    assert(stored && "the ring of spare reports has room for all reports");
  }
  beat();
  thread_ = std::thread([this] { run(); });
}

EngineThread::~EngineThread() {
  stop_.store(true);
  work_.signal();
  thread_.join();
}

bool EngineThread::try_submit(engine::Request request) {
  if (most_open_requests_ && open_requests_ >= *most_open_requests_) return false;
  submissions_.push(std::move(request));
  ++open_requests_;
  wake_engine(kMail);
  return true;
}

void EngineThread::cancel(engine::RequestId id) { call(id, CallKind::Cancel); }
void EngineThread::pause(engine::RequestId id) { call(id, CallKind::Pause); }
void EngineThread::resume(engine::RequestId id) { call(id, CallKind::Resume); }

void EngineThread::call(engine::RequestId id, CallKind kind) {
  calls_.push({id, kind});
  wake_engine(kMail);
}

std::unique_ptr<StepReport> EngineThread::try_take() {
  std::unique_ptr<StepReport> report;
  if (!reports_.try_pop(report)) return nullptr;
  for (const engine::Event& event : report->output.events) {
    if (event.request_done) --open_requests_;
  }
  return report;
}

void EngineThread::give_back(std::unique_ptr<StepReport> report) {
  const bool stored = spare_.try_push(std::move(report));
  assert(stored && "no more reports come back than exist");
  wake_engine(kReport);
}

policy::Instant EngineThread::last_beat() const {
  return policy::Instant(policy::Duration(beat_ns_.load(std::memory_order_relaxed)));
}

std::optional<std::string> EngineThread::fault() const {
  if (!faulted_.load(std::memory_order_acquire)) return std::nullopt;
  return fault_text_;
}

void EngineThread::clear_ready() {
  ready_.clear();
  ready_signalled_.exchange(false);
}

// The engine announces its sleep and then looks once more; we bring something and then look whether
// it sleeps for that. Both use read-modify-write operations on `sleeps_for_`, which have one order:
// either ours comes second and sees the announcement, or theirs does and sees what we brought.
void EngineThread::wake_engine(Need brought) {
  const auto others = static_cast<std::uint8_t>(~brought);
  if ((sleeps_for_.fetch_and(others) & brought) == 0) return;
  ++wakes_;
  work_.signal();
}

void EngineThread::run() {
  try {
    loop();
  } catch (const std::exception& error) {
    fault_text_ = error.what();
    faulted_.store(true, std::memory_order_release);
  } catch (...) {
    fault_text_ = "the engine threw something that is not an exception";
    faulted_.store(true, std::memory_order_release);
  }
  ready_.signal();
}

void EngineThread::loop() {
  while (!stop_.load(std::memory_order_relaxed)) {
    beat();
    read_mail();
    if (!engine_->has_work() || (!empty_report_ && !spare_.try_pop(empty_report_))) {
      sleep();
      continue;
    }
    empty_report_->output.clear();
    empty_report_->began = clock_.now();
    engine_->step(empty_report_->output, this);
    empty_report_->ended = clock_.now();
    const std::chrono::duration<double, std::milli> step_time =
        empty_report_->ended - empty_report_->began;
    engine_->observe_step(step_time.count());
    const bool stored = reports_.try_push(std::move(empty_report_));
    assert(stored && "the ring of reports has room for all reports");
    empty_report_ = nullptr;
    if (!ready_signalled_.exchange(true)) ready_.signal();
  }
}

void EngineThread::read_mail() {
  Call call;
  while (calls_.try_pop(call)) to_call_.push_back(call);
  engine::Request request;
  while (submissions_.try_pop(request)) {
    engine_->add(std::move(request));
  }
  for (const auto& [id, kind] : to_call_) {
    switch (kind) {
      case CallKind::Cancel: engine_->cancel(id); break;
      case CallKind::Pause: engine_->pause(id); break;
      case CallKind::Resume: engine_->resume(id); break;
    }
  }
  to_call_.clear();
}

// Sleeps until there may be something to do. What came between the last look and the announcement
// is seen here: mail that is left makes the sleep void.
void EngineThread::sleep() {
  const bool lacks_report = engine_->has_work() && !empty_report_;
  sleeps_for_.exchange(lacks_report ? kMail | kReport : kMail);
  const bool has_mail = !submissions_.empty() || !calls_.empty();
  const bool has_report = lacks_report && !spare_.empty();
  if (!has_mail && !has_report && !stop_.load()) work_.wait(kBeatInterval);
  sleeps_for_.store(kNothing);
}

void EngineThread::beat() {
  beat_ns_.store(clock_.now().time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace turnstile::gateway
