#include "bench/load/load_loop.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace turnstile::load {
namespace {

using namespace std::chrono_literals;

constexpr Time kExpiryCheckEvery = 100ms;

Time process_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return Time(std::chrono::seconds(t.tv_sec)) + std::chrono::microseconds(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

struct LoadLoop::Stream {
  explicit Stream(AnswerReader& reader) : exchange(reader) {}
  ClientSocket socket;
  Exchange exchange;
  std::string request;
  std::string_view unsent;
  std::uint32_t watched = 0;     // epoll events asked for; 0: not registered
  bool is_reused = false;        // the connection has carried a request before
  Time leave_at = Time::max();
};

LoadLoop::LoadLoop(const ServerAddress& address, const LoadPlan& plan)
    : address_(address), plan_(plan), buffer_(kReceiveBytes) {
  // Timers wake up to 50 microseconds late by default, which would count as our own lateness.
  prctl(PR_SET_TIMERSLACK, 1);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the timer; streams have their address here
  if (is_ready()) epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event);
  for (std::uint32_t i = 0; i < plan.streams; ++i) {
    streams_.push_back(std::make_unique<Stream>(reader_));
    free_streams_.push_back(streams_.back().get());
  }
}

LoadLoop::~LoadLoop() {
  if (timer_ >= 0) ::close(timer_);
  if (epoll_ >= 0) ::close(epoll_);
}

Time LoadLoop::now() const { return std::chrono::steady_clock::now() - started_; }

LoadResult LoadLoop::run() {
  LoadResult result;
  const Time cpu_before = process_cpu();
  started_ = std::chrono::steady_clock::now();
  std::array<epoll_event, 256> events;
  while (finished_count_ < plan_.requests) {
    const Time turn_start = now();
    end_pauses();
    notice_due_requests();
    assign_requests();
    leave_requests();
    expire_requests();
    stop_when_asked();
    if (is_stopping_ || finished_count_ == plan_.requests) break;
    arm_timer();
    result.longest_turn = std::max(result.longest_turn, now() - turn_start);
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    const Time work_start = now();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr != nullptr) {
        on_ready(*static_cast<Stream*>(event.data.ptr), event.events);
      } else {
        std::uint64_t expirations = 0;
        (void)!::read(timer_, &expirations, sizeof expirations);
      }
    }
    result.longest_turn = std::max(result.longest_turn, now() - work_start);
  }
  result.wall = now();
  result.own_cpu = process_cpu() - cpu_before;
  result.records = std::move(records_);
  result.started = started_;
  return result;
}

void LoadLoop::notice_due_requests() {
  const Time time = now();
  while (next_sequence_ < plan_.requests) {
    const bool is_closed_loop = plan_.schedule.empty();
    if (is_closed_loop ? waiting_.size() - waiting_front_ >= free_streams_.size()
                       : plan_.schedule[next_sequence_] > time) {
      return;
    }
    Record record;
    record.sequence = next_sequence_;
    record.scheduled = is_closed_loop ? time : plan_.schedule[next_sequence_];
    record.noticed = time;
    records_.push_back(record);  // what stays when it is never sent
    waiting_.push_back(std::move(record));
    ++next_sequence_;
  }
}

void LoadLoop::assign_requests() {
  while (waiting_front_ < waiting_.size() && !free_streams_.empty()) {
    Stream& stream = *free_streams_.back();
    free_streams_.pop_back();
    begin(stream, std::move(waiting_[waiting_front_++]));
  }
  if (waiting_front_ == waiting_.size()) {
    waiting_.clear();
    waiting_front_ = 0;
  }
}

void LoadLoop::begin(Stream& stream, Record record) {
  stream.request = plan_.bytes_of(record.sequence);
  stream.is_reused = stream.socket.is_open();
  if (!stream.is_reused) {
    stream.watched = 0;
    if (!stream.socket.open(address_)) {
      record.sent = now();
      stream.exchange.start(std::move(record));
      on_connection_end(stream);
      return;
    }
  }
  record.sent = now();
  if (plan_.leave_after) {
    stream.leave_at = record.sent + plan_.leave_after(record.sequence);
    next_leave_ = std::min(next_leave_, stream.leave_at);
  }
  stream.exchange.start(std::move(record));
  send_request(stream);
}

void LoadLoop::send_request(Stream& stream) {
  if (stream.unsent.empty()) stream.unsent = stream.request;
  const IoResult result = stream.socket.send(stream.unsent);
  if (result == IoResult::Closed) {
    on_connection_end(stream);
  } else {
    watch(stream, stream.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
  }
}

void LoadLoop::on_ready(Stream& stream, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !stream.unsent.empty()) send_request(stream);
  if (stream.socket.is_open() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive(stream);
}

void LoadLoop::receive(Stream& stream) {
  std::size_t received = 0;
  const IoResult result = stream.socket.receive(buffer_.data(), buffer_.size(), received);
  if (result == IoResult::WouldBlock) return;
  if (result == IoResult::Closed) {
    on_connection_end(stream);
    return;
  }
  if (stream.exchange.finished()) {
    stream.socket.close();  // bytes that no request asked for
    return;
  }
  stream.exchange.on_bytes(now(), {buffer_.data(), received});
  if (stream.exchange.finished()) settle(stream);
}

// The server closed the connection, or it could not be made.
void LoadLoop::on_connection_end(Stream& stream) {
  stream.socket.close();
  stream.unsent = {};
  if (stream.exchange.finished()) return;  // a kept connection between two requests
  if (stream.is_reused && stream.exchange.is_untouched()) {
    // The server closed it while our request was on its way: send once more, on a new one.
    Record record = std::move(stream.exchange.record());
    begin(stream, std::move(record));
    return;
  }
  stream.exchange.on_close(now());
  settle(stream);
}

void LoadLoop::settle(Stream& stream) {
  // An answer that came before the request was wholly sent leaves the connection unusable.
  if (!stream.exchange.keeps_connection() || !stream.unsent.empty()) stream.socket.close();
  stream.unsent = {};
  stream.leave_at = Time::max();
  const std::uint64_t sequence = stream.exchange.record().sequence;
  records_[sequence] = std::move(stream.exchange.record());
  if (records_[sequence].outcome == Outcome::Rejected && plan_.pause_after_refusal > Time::zero()) {
    paused_.emplace_back(now() + plan_.pause_after_refusal, &stream);
  } else {
    free_streams_.push_back(&stream);
  }
  ++finished_count_;
}

// All pauses are equally long, so the oldest ends first.
void LoadLoop::end_pauses() {
  while (!paused_.empty() && paused_.front().first <= now()) {
    free_streams_.push_back(paused_.front().second);
    paused_.pop_front();
  }
}

void LoadLoop::leave_requests() {
  const Time time = now();
  if (time < next_leave_) return;
  next_leave_ = Time::max();
  for (const auto& stream : streams_) {
    if (stream->leave_at > time) {
      next_leave_ = std::min(next_leave_, stream->leave_at);
    } else if (!stream->exchange.finished()) {
      stream->exchange.on_leave(time);
      settle(*stream);
    }
  }
}

// Whoever started this client may end its run at any time and still gets a report.
void LoadLoop::stop_when_asked() {
  if (plan_.stop == nullptr || !plan_.stop->load()) return;
  is_stopping_ = true;
  const Time time = now();
  for (const auto& stream : streams_) {
    if (stream->exchange.finished()) continue;
    stream->exchange.on_leave(time);
    settle(*stream);
  }
}

void LoadLoop::expire_requests() {
  const Time time = now();
  if (time < next_expiry_check_) return;
  next_expiry_check_ = time + kExpiryCheckEvery;
  for (const auto& stream : streams_) {
    if (stream->exchange.finished()) continue;
    if (time - stream->exchange.record().sent < plan_.timeout) continue;
    stream->exchange.on_timeout(time);
    settle(*stream);
  }
}

void LoadLoop::watch(Stream& stream, std::uint32_t events) {
  if (stream.watched == events) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = &stream;
  epoll_ctl(epoll_, stream.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
            stream.socket.descriptor(), &event);
  stream.watched = events;
}

// Wakes for the next scheduled request or the next look at the time limits.
void LoadLoop::arm_timer() {
  Time wake = std::min(next_expiry_check_, next_leave_);
  if (!paused_.empty()) wake = std::min(wake, paused_.front().first);
  if (!plan_.schedule.empty() && next_sequence_ < plan_.requests) {
    wake = std::min(wake, plan_.schedule[next_sequence_]);
  }
  const Time since_boot = started_.time_since_epoch() + std::max(wake, Time(1));
  itimerspec when{};
  when.it_value.tv_sec = since_boot / 1s;
  when.it_value.tv_nsec = (since_boot % 1s).count();
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace turnstile::load
