// load_loop.h: sends the requests and receives the answers: one thread, one epoll.
//
//   due requests --> [waiting, FIFO] --> a free stream --> exchange --> record
//
// Open loop: a request becomes due at its scheduled time; when all streams are busy it waits, and
// its latency still counts from the schedule. Closed loop: a request is due when a stream is free.
//
// Invariant: each request that became due yields exactly one record, whatever its fate.
// Limits:    `streams` sockets; one receive of kReceiveBytes per ready socket and turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/client_socket.h"
#include "bench/load/exchange.h"
#include "bench/load/schedule.h"

namespace turnstile::load {

struct LoadPlan {
  std::uint32_t streams = 1;
  std::uint64_t requests = 1;
  std::vector<Time> schedule;  // empty: closed loop; else one intended time a request
  Time timeout{};
  std::function<std::string(std::uint64_t sequence)> bytes_of;
  // How long after its send a request is given up; empty: never.
  std::function<Time(std::uint64_t sequence)> leave_after;
  Time pause_after_refusal{};  // how long a refused stream stays silent
  // Once set, nothing new is sent and the open requests are left; seen within kExpiryCheckEvery.
  const std::atomic<bool>* stop = nullptr;
};

struct LoadResult {
  std::vector<Record> records;  // by sequence; fewer than planned when the run was stopped
  std::chrono::steady_clock::time_point started;  // what all times of the records count from
  Time wall{};                  // first intended or actual send to last end
  Time own_cpu{};               // user and system time of this process during the run
  Time longest_turn{};          // the longest time the loop was away from epoll
};

class LoadLoop {
 public:
  static constexpr std::size_t kReceiveBytes = 64 * 1024;

  // `address` and `plan` outlive the loop.
  LoadLoop(const ServerAddress& address, const LoadPlan& plan);
  ~LoadLoop();

  // False when the operating system refuses an epoll or a timer.
  bool is_ready() const { return epoll_ >= 0 && timer_ >= 0; }

  // Runs the whole plan.
  LoadResult run();

 private:
  struct Stream;

  Time now() const;
  void notice_due_requests();
  void assign_requests();
  void begin(Stream& stream, Record record);
  void send_request(Stream& stream);
  void on_ready(Stream& stream, std::uint32_t events);
  void receive(Stream& stream);
  void on_connection_end(Stream& stream);
  void settle(Stream& stream);
  void leave_requests();
  void end_pauses();
  void stop_when_asked();
  void expire_requests();
  void watch(Stream& stream, std::uint32_t events);
  void arm_timer();

  const ServerAddress& address_;
  const LoadPlan& plan_;
  AnswerReader reader_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> free_streams_;
  std::vector<Record> waiting_;  // FIFO from waiting_front_ on
  std::size_t waiting_front_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::vector<Record> records_;  // of the requests noticed so far
  std::uint64_t finished_count_ = 0;
  std::vector<char> buffer_;
  std::chrono::steady_clock::time_point started_;
  Time next_expiry_check_{};
  Time next_leave_ = Time::max();  // no request is to be left before
  std::deque<std::pair<Time, Stream*>> paused_;  // by the time at which they are free again
  bool is_stopping_ = false;
  int epoll_ = -1;
  int timer_ = -1;
};

}  // namespace turnstile::load
