// server.h: listeners, connection limits and the I/O thread's loop.
//
//   listener --accept--> limits (in all, by address, handshakes) --> SessionSet
//   loop: sockets, the ready_fd of each thread, signals, one timer --> end_turn() (spine_turn.h)
//
// run() returns when the drain has ended and the last session is gone, or kLastWords after that.
//
// Thread: I/O.
// Tests:  tests/e2e (real sockets).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/event_loop.h"
#include "gateway/http/listener.h"
#include "gateway/session_set.h"
#include "gateway/spine_context.h"
#include "gateway/http/tls_connection.h"

namespace turnstile::gateway {

class Server {
 public:
  // What sessions may still take to send their last words once the server ends.
  static constexpr policy::Duration kLastWords = std::chrono::seconds(2);

  struct Listeners {
    std::unique_ptr<Listener> open_to_all;
    std::unique_ptr<Listener> admin;
  };

  // `tls` may be null: plain HTTP. `look_at_files` is called twice a second (keys, certificates).
  Server(EventLoop& loop, SpineContext& context, Listeners listeners, TlsContext* tls,
         std::function<void()> look_at_files);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Turns the loop when another thread has something; `clear` takes its signal back.
  void watch(int ready_fd, std::function<void()> clear);

  // SIGTERM, SIGINT and SIGQUIT drain; the second one ends at once; SIGHUP is noted.
  void on_signal(int number);
  void run();

 private:
  class ThreadWatch;

  void accept(int fd, PeerAddress peer, ListenerKind kind);
  bool has_room(const PeerAddress& peer, ListenerKind kind) const;
  void end_of_turn();
  void look_around(policy::Instant now);
  void end_sessions(policy::Instant now);

  EventLoop& loop_;
  SpineContext& context_;
  Listeners listeners_;
  TlsContext* tls_;
  std::function<void()> look_at_files_;
  std::vector<std::unique_ptr<ThreadWatch>> watches_;
  SessionSet sessions_;
  std::map<std::string, std::size_t, std::less<>> connections_by_address_;  // loopback left out
  std::optional<policy::Instant> next_look_;
  std::optional<policy::Instant> ends_at_;  // set when sessions were told to end
  bool was_signalled_ = false;
};

}  // namespace turnstile::gateway
