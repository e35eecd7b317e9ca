#include "gateway/records/line_writer.h"

#include <concurrentqueue/concurrentqueue.h>
#include <semaphore.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/clock.h"
#include "gateway/records/line_file.h"
#include "gateway/log.h"

namespace turnstile::gateway {
namespace {

constexpr std::chrono::seconds kSyncPeriod{1};
constexpr std::chrono::seconds kRetryPeriod{1};

struct QueuedLine {
  LineStream stream = LineStream::Audit;
  std::string text;
};

timespec to_timespec(policy::Instant instant) {
  const auto since_epoch = instant.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return {static_cast<std::time_t>(seconds.count()),
          static_cast<long>((since_epoch - seconds).count())};
}

}  // namespace

struct LineWriter::State {
  State() { sem_init(&wake, 0, 0); }
  ~State() { sem_destroy(&wake); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The writer's side.
  std::array<LineFile, kLineStreams> files;
  std::array<std::string, kLineStreams> pending;  // taken from the queue, not yet in the file
  std::size_t pending_bytes = 0;
  std::uint64_t taken = 0;
  std::thread thread;

  // The I/O thread's side.
  std::uint64_t accepted = 0;

  // Between them.
  moodycamel::ConcurrentQueue<QueuedLine> queue{kHighMarkLines};
  std::atomic<std::size_t> queued_lines{0};
  std::atomic<std::size_t> queued_bytes{0};
  std::atomic<std::uint64_t> synced{0};  // lines that are on disk
  std::atomic<bool> is_failing{false};
  std::atomic<bool> is_asleep{false};
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> wants_sync{false};
  sem_t wake;

  void wake_up() {
    // The writer sets is_asleep before it looks at the queue for the last time, so either it sees
    // the line or it is woken.
    if (is_asleep.exchange(false)) sem_post(&wake);
  }
  void run();
  void sleep_until(policy::Instant deadline);
  void take_lines();
  bool follow();
  bool write_all();
  bool write_pending();
  bool sync();
};

tl::expected<std::unique_ptr<LineWriter>, std::string> LineWriter::open(
    const LineWriterSettings& settings) {
  if (auto made = make_private_folder(settings.state_dir); !made) {
    return tl::unexpected(std::move(made).error());
  }
  auto state = std::make_unique<State>();
  const std::array<LineFileSettings, kLineStreams> files{
      LineFileSettings{settings.state_dir / "audit", "audit", settings.audit_file_number,
                       settings.rotate_bytes},
      LineFileSettings{settings.state_dir, "requests", std::nullopt, settings.rotate_bytes},
      LineFileSettings{settings.state_dir, "events", std::nullopt, settings.rotate_bytes},
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (auto opened = state->files[i].open(files[i]); !opened) {
      return tl::unexpected(std::move(opened).error());
    }
  }
  State* shared = state.get();
  state->thread = std::thread([shared] { shared->run(); });
  return std::unique_ptr<LineWriter>(new LineWriter(std::move(state)));
}

LineWriter::LineWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

LineWriter::~LineWriter() { close(); }

std::size_t LineWriter::close() {
  if (state_->thread.joinable()) {
    state_->is_stopping = true;
    state_->is_asleep = false;
    sem_post(&state_->wake);
    state_->thread.join();
  }
  if (!state_->is_failing) return 0;
  std::size_t lost = state_->queued_lines;
  for (const std::string& lines : state_->pending) {
    lost += static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  }
  // The disk may take every line and still refuse to keep them.
  return std::max<std::size_t>(lost, 1);
}

void LineWriter::write(LineStream stream, std::string_view line) {
  assert(!line.empty() && line.back() == '\n' && "a line ends with a line feed");
  state_->queued_lines += 1;
  state_->queued_bytes += line.size();
  ++state_->accepted;
  const bool ok = state_->queue.enqueue({stream, std::string(line)});
  assert(ok && "memory for a queued line");
  static_cast<void>(ok);
  state_->wake_up();
}

bool LineWriter::is_writable() const {
  return !state_->is_failing && state_->queued_lines < kHighMarkLines &&
         state_->queued_bytes < kHighMarkBytes;
}

bool LineWriter::flush() {
  while (state_->synced < state_->accepted) {
    if (state_->is_failing) return false;
    state_->wants_sync = true;
    state_->wake_up();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void LineWriter::State::run() {
  const SystemClock clock;
  policy::Instant next_sync = clock.now() + kSyncPeriod;
  for (;;) {
    const bool stopping = is_stopping;  // read before the queue: nothing is enqueued after it
    const bool sync_now =
        wants_sync.exchange(false) || stopping || is_failing || clock.now() >= next_sync;
    // Before the first lines after a sync, and once more when they are written: the files may have
    // been moved between the first look and the lines.
    bool is_in_place = synced != taken || follow();
    bool is_kept = write_all();
    if (sync_now && synced != taken) {
      is_in_place = is_in_place && follow();
      is_kept = is_kept && sync();
      next_sync = clock.now() + kSyncPeriod;
    }
    is_failing = !is_kept || (!is_in_place && !stopping);
    if (stopping) break;
    if (is_failing) {
      sleep_until(clock.now() + kRetryPeriod);
    } else {
      sleep_until(synced != taken ? next_sync : policy::Instant::max());
    }
  }
}

void LineWriter::State::sleep_until(policy::Instant deadline) {
  is_asleep = true;
  const bool has_work = (queued_lines != 0 && !is_failing) || wants_sync || is_stopping;
  if (has_work && is_asleep.exchange(false)) return;
  if (deadline == policy::Instant::max()) {
    while (sem_wait(&wake) != 0) {
    }
    return;
  }
  const timespec until = to_timespec(deadline);
  // The semaphore may be posted just after the time is over; is_asleep tells, so that no post is
  // left behind to cut the next sleep short.
  if (sem_clockwait(&wake, CLOCK_MONOTONIC, &until) != 0 && !is_asleep.exchange(false)) {
    while (sem_wait(&wake) != 0) {
    }
  }
}

void LineWriter::State::take_lines() {
  std::array<QueuedLine, LineWriter::kBatchLines> batch;
  const std::size_t count = queue.try_dequeue_bulk(batch.begin(), batch.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    pending[static_cast<std::size_t>(batch[i].stream)] += batch[i].text;
    bytes += batch[i].text.size();
  }
  pending_bytes += bytes;
  taken += count;
  queued_bytes -= bytes;
  queued_lines -= count;
}

// Whether the files are where records are looked for. Where their folder is not, what had begun is
// still written, into the folder that was moved.
bool LineWriter::State::follow() {
  bool ok = true;
  for (LineFile& file : files) {
    const auto told = file.follow();
    if (told && !told->empty()) log_warning(*told);
    if (told) continue;
    if (ok && !is_failing) log_error(told.error());
    ok = false;
  }
  return ok;
}

bool LineWriter::State::write_all() {
  bool ok = true;
  while (ok && (pending_bytes != 0 || queued_lines != 0)) {
    if (pending_bytes == 0) take_lines();
    ok = write_pending();
  }
  return ok;
}

bool LineWriter::State::write_pending() {
  bool ok = true;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (pending[i].empty()) continue;
    const std::size_t before = pending[i].size();
    const auto written = files[i].write(pending[i]);
    pending_bytes -= before - pending[i].size();
    if (written) continue;
    ok = false;
    if (!is_failing) log_error(written.error());
  }
  return ok;
}

bool LineWriter::State::sync() {
  const auto result = files[static_cast<std::size_t>(LineStream::Audit)].sync();
  if (!result) {
    if (!is_failing) log_error(result.error());
    return false;
  }
  synced = taken;
  return true;
}

}  // namespace turnstile::gateway
